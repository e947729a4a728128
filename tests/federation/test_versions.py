"""Later versions of a federation's file: signed by the authority, handed on, and taken only if a run can go on."""

import numpy as np
import pytest
from test_identity import folders  # noqa: F401
from test_intruders import TEXT, Listener

from crossgrad.federation import authority
from crossgrad.federation.identity import Identity
from crossgrad.federation.links import Connections
from crossgrad.federation.reading import parse_federation
from crossgrad.federation.rehearsal import free_ports
from crossgrad.federation.start import data_of_versions, start
from crossgrad.federation.versions import (
    Known,
    Later,
    Signed,
    VersionError,
    keep,
    publish,
    read_known,
    read_signed,
    successor,
)

NEWCOMER = '[[sites]]\nname = "c"\nlisten = "127.0.0.1:9"\n'


def later(text, version=2):
    return f"version = {version}\n{text}{NEWCOMER}"


@pytest.fixture
def first():
    return TEXT.format(port=free_ports(1)[0], seed=0)


@pytest.fixture
def signed(folders, tmp_path):  # noqa: F811
    """Signs a text; each time by an authority that has signed nothing yet."""

    def sign(text):
        keeper = tmp_path / f"authority-{len(list(tmp_path.iterdir()))}"
        keeper.mkdir()
        for name in ("authority.key", "authority.crt"):
            (keeper / name).write_bytes((folders / "authority" / name).read_bytes())
        (keeper / "federation.toml").write_text(text)
        publish(keeper, keeper / "federation.toml")
        return read_signed(keeper / "federation.toml")

    return sign


def test_a_signed_file_of_a_higher_version_adds_a_site_behind_the_others(folders, first, signed):  # noqa: F811
    present, a = parse_federation(first), Identity.load(folders / "a", "a")
    found = successor(present, signed(later(first)), a)
    assert [entry.name for entry in found.sites] == ["a", "b", "c"]
    assert found.run_digest == present.run_digest
    assert found.digest != present.digest


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: later(text, 1), "a later version than 1 was expected; found version 1"),
        (lambda text: later(text).replace('"a"', '"x"'), "sites of version 1 first, in their order"),
        (lambda text: later(text).replace("seed = 0", "seed = 1"), r"changes what is trained \(experiment.seed\)"),
    ],
)
def test_a_version_that_changes_what_must_stay_is_not_taken(folders, first, signed, change, sentence):  # noqa: F811
    with pytest.raises(VersionError, match=sentence):
        successor(parse_federation(first), signed(change(first)), Identity.load(folders / "a", "a"))


def test_a_version_that_was_changed_after_it_was_signed_or_by_somebody_else_is_not_taken(
    folders,  # noqa: F811
    first,
    signed,
    tmp_path,
):
    present, a, good = parse_federation(first), Identity.load(folders / "a", "a"), signed(later(first))
    authority.make_authority(tmp_path / "other", "other")
    (tmp_path / "federation.toml").write_text(good.text)
    publish(tmp_path / "other", tmp_path / "federation.toml")
    for bad in (Signed(good.text + " ", good.signature), read_signed(tmp_path / "federation.toml")):
        with pytest.raises(VersionError, match="authority must have signed"):
            successor(present, bad, a)


def test_of_one_version_only_one_file_is_signed(first, folders, tmp_path):  # noqa: F811
    authority.make_authority(tmp_path / "authority", "wards")
    path = tmp_path / "federation.toml"
    path.write_text(later(first))
    publish(tmp_path / "authority", path)
    publish(tmp_path / "authority", path)
    path.write_text(later(first).replace(":9", ":10"))
    with pytest.raises(VersionError, match="Raise `version`"):
        publish(tmp_path / "authority", path)


def test_a_run_whose_algorithm_keeps_something_for_each_neighbour_takes_no_further_sites(first, signed):
    with pytest.raises(VersionError, match="keeps its neighbours to the end"):
        signed(later(first).replace('"dpsgd"', '"compcga"'))


def test_a_site_notices_the_file_that_is_put_in_place_of_its_own_and_says_so_once(
    folders,  # noqa: F811
    first,
    signed,
    tmp_path,
):
    path, said = tmp_path / "federation.toml", []
    path.write_text(first)
    watch = Later(parse_federation(first), Identity.load(folders / "a", "a"), path, said.append)
    assert watch.look() is None
    good = signed(later(first))
    path.write_text(good.text)
    assert watch.look() is None  # the signature has yet to come
    path.with_name("federation.toml.sig").write_bytes(good.signature)
    found = watch.look()
    assert found.federation.version == 2
    assert said[0].endswith("with c.")
    assert watch.look() is found


def test_a_version_that_every_neighbour_hands_on_is_not_called_a_wrong_one_the_second_time(folders, first, signed):  # noqa: F811
    said = []
    watch, good = (
        Later(parse_federation(first), Identity.load(folders / "a", "a"), None, said.append),
        signed(later(first)),
    )
    for neighbour in ("b", "c", "d"):
        watch.offer(good, neighbour)
    assert said == ["has version 2 of the federation's file from b, with c."]


@pytest.mark.parametrize("ahead", ["a", "b"])
def test_the_end_that_has_a_later_version_hands_it_over_whoever_dials(folders, first, signed, ahead):  # noqa: F811
    text = first.replace('graph = "ring"', 'graph = "fully-connected"')
    old, good = parse_federation(text), signed(later(text))
    new, listeners = parse_federation(good.text), {name: Listener() for name in "ab"}
    links = [
        Connections(new if name == ahead else old, Identity.load(folders / name, name), listeners[name], 1000,
              good if name == ahead else None)
        for name in "ab"
    ]  # fmt: skip
    for each in links:
        each.start()
    try:
        behind, number = ("b", 0) if ahead == "a" else ("a", 1)
        listeners[behind].wait_for(lambda listener: ("handed", number, good) in listener.events)
        assert not any(event[0] == "connected" for listener in listeners.values() for event in listener.events)
    finally:
        for each in links:
            each.stop()


def test_a_later_version_is_handed_to_neighbours_before_a_site_leaves_for_it(folders, first, signed):  # noqa: F811
    federation, good = parse_federation(first), signed(later(first))
    listeners = {name: Listener() for name in "ab"}
    links = {name: Connections(federation, Identity.load(folders / name, name), listeners[name], 1000) for name in "ab"}
    for each in links.values():
        each.start()
    for listener in listeners.values():
        listener.wait_for(lambda listener: listener.events)
    links["a"].stop(good)
    listeners["b"].wait_for(lambda listener: ("handed", 0, good) in listener.events)
    links["b"].stop()


def test_a_site_that_starts_again_goes_on_with_the_version_that_its_run_has_taken(
    folders,  # noqa: F811
    first,
    signed,
    tmp_path,
):
    path, run, a = tmp_path / "federation.toml", tmp_path / "run", Identity.load(folders / "a", "a")
    path.write_text(first)
    run.mkdir()
    assert read_known(path, run, a).federation.version == 1
    keep(run, *read_known(path, run, a))
    good = signed(later(first))
    keep(run, *Known(parse_federation(good.text), good))
    found = read_known(path, run, a)
    assert (found.federation.digest, found.signed) == (parse_federation(good.text).digest, good)
    (run / "federation-2.toml.sig").unlink()
    with pytest.raises(VersionError, match="must have its signature beside it"):
        read_known(path, run, a)


def test_what_a_site_has_saved_fits_the_training_of_a_later_version(first):
    text = first.replace('graph = "ring"', 'graph = "fully-connected"')
    versions = [parse_federation(text), parse_federation(later(text))]
    data = data_of_versions(versions)
    assert len(data) == 3
    before, after = (start(version, 0, data[0]) for version in versions)
    before.step_number = 5
    before.traffic.add("model", before.traffic.edges(np.array([1]), np.array([0])), 700)
    after.load_state_dict(before.state_dict())
    assert (after.step_number, after.traffic.total) == (5, 700)


def test_who_forgets_to_raise_the_version_is_not_told_that_sites_at_work_take_the_file(first, tmp_path, crossgrad):
    authority.make_authority(tmp_path / "authority", "wards")
    path = tmp_path / "federation.toml"
    for text, expected in ((first, "Those at work take a higher `version` only"), (later(first), "Version 2: put")):
        path.write_text(text)
        answer = crossgrad("federation", "publish", path, "--authority", tmp_path / "authority")
        assert answer.status == 0
        assert expected in answer.out
