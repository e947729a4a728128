"""Every rule gives out all samples; each in the proportions it promises."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from crossgrad.data import (
    IID,
    PARTITIONS,
    ByClass,
    ByColumn,
    Dirichlet,
    LabelAndQuantity,
    LabelQuantity,
    Partition,
    Shards,
    as_rule,
)

AGENTS = (1, 3, 5, 7, 10, 11, 13, 40, 41)
LABELS = np.random.default_rng(1).integers(0, 10, 2000)
RULES = [
    IID(),
    ByClass(),
    ByClass(shuffle=False),
    Shards(),
    Shards(3),
    Dirichlet(),
    LabelQuantity(10),
    LabelQuantity(3),
]


def counts(rule, agents, seed=0, labels=LABELS):
    return rule(labels, agents, seed, 10).counts(labels, 10)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])  # few samples
@given(
    st.sampled_from(RULES),
    st.lists(st.integers(0, 6), min_size=1, max_size=120),
    st.integers(1, 15),
    st.integers(0, 2**40),
)
def test_no_sample_is_lost_or_doubled(rule, labels, agents, seed):
    labels = np.array(labels)
    try:
        partition = rule(labels, agents, seed, 7)
    except ValueError:  # too few samples for so many agents: said, never worked around
        reject()
    assert partition.agents == agents
    assert np.sort(np.concatenate(partition.indices)).tolist() == list(range(len(labels)))
    assert partition.sizes.min() >= 1


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("agents", AGENTS)
def test_every_rule_serves_any_number_of_agents(rule, agents):
    if isinstance(rule, LabelQuantity) and rule.labels_per_agent * agents < 10:
        with pytest.raises(ValueError, match=r"fewer than 10. Raise labels_per_agent"):
            counts(rule, agents)
    else:
        np.testing.assert_array_equal(counts(rule, agents).sum(0), np.bincount(LABELS))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_the_same_seed_gives_the_same_partition_and_the_global_generator_does_not_matter(rule):
    np.random.seed(0)
    first = rule(LABELS, 7, 3)
    np.random.seed(1)
    state = np.random.get_state()[1].copy()
    again = rule(LABELS, 7, 3)
    np.testing.assert_array_equal(state, np.random.get_state()[1])
    for one, other in zip(first.indices, again.indices, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != ByClass(shuffle=False)], ids=repr)
def test_another_seed_gives_another_partition(rule):
    one, other = (rule(LABELS, 7, seed).indices for seed in (0, 1))
    assert any(a.tolist() != b.tolist() for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("agents", AGENTS)
def test_iid_shares_differ_by_at_most_one(agents):
    held = counts(IID(), agents)
    assert np.ptp(held, axis=0).max() <= 1
    assert np.ptp(held.sum(1)) <= 1


def test_iid_deals_targets_of_regression_over_their_range():
    targets = np.random.default_rng(0).normal(size=1000)
    partition = IID()(targets, 4, 0)
    means = [targets[held].mean() for held in partition.indices]
    assert np.ptp(partition.sizes) == 0
    assert np.ptp(means) < 0.05


@pytest.mark.parametrize("agents", [n for n in AGENTS if n <= 10])
def test_by_class_with_few_agents_gives_class_c_to_agent_c_mod_n(agents):
    held = counts(ByClass(shuffle=False), agents)
    for c in range(10):
        assert np.flatnonzero(held[:, c]).tolist() == [c % agents]


@pytest.mark.parametrize("agents", [n for n in AGENTS if n > 10])
def test_by_class_with_many_agents_divides_class_i_mod_c_nearly_equally(agents):
    held = counts(ByClass(shuffle=False), agents)
    for i in range(agents):
        assert np.flatnonzero(held[i]).tolist() == [i % 10]
    for c in range(10):
        assert np.ptp(held[c::10, c]) <= 1


def test_by_class_without_shuffling_keeps_the_order_of_the_data():
    for held in ByClass(shuffle=False)(LABELS, 40, 0).indices:
        assert held.tolist() == sorted(held.tolist())


@pytest.mark.parametrize("agents", AGENTS)
def test_shuffling_by_class_only_permutes_who_is_who(agents):
    plain = sorted(counts(ByClass(shuffle=False), agents).tolist())
    seen = set()
    for seed in range(5):
        held = counts(ByClass(), agents, seed).tolist()
        assert sorted(held) == plain
        seen.add(str(held))
    assert len(seen) > 1 or agents == 1


def test_shards_are_of_equal_size_and_hold_few_classes():
    labels = np.repeat(np.arange(10), 100)
    held = counts(Shards(2), 10, labels=labels)
    assert (held.sum(1) == 100).all()
    assert ((held > 0).sum(1) <= 2).all()
    assert set(held[held > 0].tolist()) <= {50, 100}


@pytest.mark.parametrize("agents", [1, 4, 7])
def test_dirichlet_with_large_alpha_approaches_equal_shares(agents):
    held = counts(Dirichlet(1e9), agents)
    assert np.abs(held - np.bincount(LABELS) / agents).max() <= 1


def test_dirichlet_with_small_alpha_gives_a_class_to_almost_one_agent():
    held = counts(Dirichlet(1e-3), 4)
    assert (held.max(0) / held.sum(0)).min() > 0.95


def test_dirichlet_shares_have_the_mean_and_variance_of_the_distribution():
    labels, alpha, agents = np.zeros(10_000, np.int64), 0.5, 4
    shares = np.array([Dirichlet(alpha)(labels, agents, seed).sizes / 10_000 for seed in range(400)])
    a0 = alpha * agents
    assert shares.mean(0) == pytest.approx(np.full(4, 0.25), abs=0.03)
    assert shares.var(0) == pytest.approx(np.full(4, 0.25 * 0.75 / (a0 + 1)), rel=0.2)


def test_dirichlet_draws_until_everybody_has_enough():
    assert Dirichlet(0.5, min_samples=50)(LABELS, 10, 0).sizes.min() >= 50


def test_dirichlet_gives_up_in_one_sentence():
    with pytest.raises(ValueError, match="Raise alpha or lower the number of agents"):
        Dirichlet(0.01)(LABELS, 200, 0)


@pytest.mark.parametrize("agents", [5, 7, 10, 11, 13, 40])
@pytest.mark.parametrize("k", [2, 3, 10])
def test_label_quantity_gives_everybody_k_classes_and_every_class_a_holder(agents, k):
    for seed in range(3):
        holds = counts(LabelQuantity(k), agents, seed) > 0
        assert (holds.sum(1) == k).all()
        assert holds.any(0).all()
        assert np.ptp(holds.sum(0)) <= 1


def test_label_quantity_divides_a_class_among_its_holders_nearly_equally():
    held = counts(LabelQuantity(2), 13)
    for c in range(10):
        assert np.ptp(held[held[:, c] > 0, c]) <= 1


@pytest.mark.parametrize(
    ("rule", "labels", "agents", "sentence"),
    [
        (IID(), [0, 1], 3, "3 agents and 2 samples"),
        (IID(), [0, 1], 0, "must be a whole number of at least 1; found 0"),
        (IID(), [0, 1], 1.5, "must be a whole number of at least 1; found 1.5"),
        (Shards(2), [0, 1, 2], 2, "4 shards of 3 samples"),
        (ByClass(), [0, 0, 2, 2], 3, "found none for 1 of 3 agents"),
        (ByClass(), [0, 1, 1, 1, 1], 4, "found none for 1 of 4 agents"),
        (ByClass(), [0.5, 1.5], 2, "Use IID or Shards"),
        (ByClass(), [0, -1], 2, "found -1 to 0"),
        (Dirichlet(), [0, 1], 3, "3 agents"),
        (LabelQuantity(3), [0, 1], 2, "3 are more than 2. Lower labels_per_agent to 2"),
        (LabelQuantity(2), [0, 1, 2, 3, 4], 2, "2 x 2 are fewer than 5. Raise labels_per_agent to 3"),
    ],
)
def test_what_cannot_be_divided_is_said_in_one_sentence(rule, labels, agents, sentence):
    with pytest.raises(ValueError, match=sentence):
        rule(np.array(labels), agents, 0)


def test_a_label_beyond_the_classes_is_refused():
    with pytest.raises(ValueError, match="labels of 5 classes must be 0 to 4"):
        ByClass()(LABELS, 3, 0, 5)


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed"):
        IID()(LABELS, 3, -1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Shards(0),
        lambda: LabelQuantity(0),
        lambda: LabelQuantity(True),
        lambda: Dirichlet(0),
        lambda: Dirichlet(float("nan")),
        lambda: Dirichlet(float("inf")),
        lambda: Dirichlet(1, min_samples=0),
    ],
)
def test_an_impossible_setting_is_refused_where_it_is_made(make):
    with pytest.raises(ValueError, match="must be a"):
        make()


def test_every_rule_has_a_name_and_says_in_one_line_what_it_does():
    assert list(PARTITIONS) == ["iid", "class", "shards", "dirichlet", "label-quantity", "label-and-quantity"]
    for rule in PARTITIONS.values():
        assert rule.__doc__.splitlines()[0].endswith(".")
        assert rule()(LABELS, 10, 0).agents == 10


def test_small_quantity_gives_most_samples_to_few_agents_and_large_one_equal_shares():
    few = np.sort(LabelAndQuantity(1e6, 0.1)(LABELS, 5, 0).sizes)
    assert few[-1] > 3 * few[:3].mean()
    even = LabelAndQuantity(1e9, 1e9)(LABELS, 5, 0).sizes
    assert np.ptp(even) <= 10  # one per class


def test_by_column_every_value_stays_with_one_agent():
    writer = np.random.default_rng(0).integers(0, 12, len(LABELS))
    for agents in (12, 5):
        partition = ByColumn(writer)(LABELS, agents, 0)
        holders = [set(writer[held].tolist()) for held in partition.indices]
        assert sum(map(len, holders)) == 12
    assert np.ptp(ByColumn(writer)(LABELS, 4, 0).sizes) < len(LABELS) / 10
    with pytest.raises(ValueError, match="found 12 values for 13 agents"):
        ByColumn(writer)(LABELS, 13, 0)
    with pytest.raises(ValueError, match="value for each of"):
        ByColumn(writer[1:])(LABELS, 3, 0)


def test_names_index_lists_and_partitions_are_taken_for_rules():
    labels = np.array([0, 1, 0, 1])
    assert as_rule("iid") == as_rule(None) == as_rule(IID) == IID()
    for known in ([[0, 3], [1, 2]], Partition(([0, 3], [1, 2]))):
        assert [held.tolist() for held in as_rule(known)(labels, 2, 0).indices] == [[0, 3], [1, 2]]
        with pytest.raises(ValueError, match="graph's 3 agents; found one for 2"):
            as_rule(known)(labels, 3, 0)
    with pytest.raises(ValueError, match=r"no partition 'idd'. Choose one of class, dirichlet, iid"):
        as_rule("idd")
    with pytest.raises(ValueError, match="found a int"):
        as_rule(3)
