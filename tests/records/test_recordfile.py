"""Records come back from their file as they were, and a file that is none says so with its line."""

import json
import math
import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossgrad.records.file import MAX_RECORD_BYTES, read_records
from crossgrad.records.record import QUANTITIES, MetricTable, MetricValues, Record
from crossgrad.records.values import STATUSES

RECORD = Record(
    step=20, epoch=1.5, lr=0.01, train_loss=0.7, loss=0.25, test_loss=0.5, accuracy=0.9, agent_accuracy=(0.8, 1.0),
    consensus=1e-9, bytes_sent=800, bytes_by_kind={"model": 800}, bytes_by_agent=(400, 400), gradients=40,
    seconds=0.1, diagnostics={"active": 0.5}, class_accuracy=(0.9, 1.0), agent_class_accuracy=((0.8, 0.5), (1.0, 1.0)),
)  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def write(content):
        file = tmp_path / "records.jsonl"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


def line(record=RECORD, **changes):
    return json.dumps(record.as_json() | changes) + "\n"


counts, numbers = st.integers(0, 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
LIST = st.lists(numbers, max_size=3).map(tuple)
LISTS = st.lists(LIST, max_size=2).map(tuple)
METRIC = st.builds(MetricValues, *[st.none() | numbers] * 3, LIST, LIST)
RECORDS = st.builds(
    Record,
    *[counts, numbers, numbers, st.none() | numbers, numbers, st.none() | numbers, st.none() | numbers],
    *[st.lists(numbers, max_size=3).map(tuple), numbers, counts, st.dictionaries(st.text(max_size=3), counts)],
    *[st.lists(counts, max_size=3).map(tuple), counts, numbers, st.sampled_from(STATUSES)],
    st.dictionaries(st.text(max_size=3), numbers, max_size=3),
    *[LIST, LISTS, st.dictionaries(st.text(max_size=3), METRIC, max_size=2)],
    st.dictionaries(
        st.text(max_size=3), st.builds(MetricTable, LISTS, st.lists(LISTS, max_size=2).map(tuple)), max_size=2
    ),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_records_come_back_as_they_were(write, records):
    assert read_records(write("".join(map(line, records)))) == records


def test_what_was_not_finite_comes_back_as_not_a_number(write):
    record = replace(RECORD, loss=math.inf, agent_accuracy=(math.nan, 1.0), diagnostics={"rows": -math.inf})
    (back,) = read_records(write(line(record)))
    assert math.isnan(back.loss)
    assert math.isnan(back.agent_accuracy[0])
    assert math.isnan(back.diagnostics["rows"])
    assert line(back) == line(record)


def test_every_quantity_of_a_record_is_one_of_its_numbers():
    record = replace(RECORD, metrics={"macro_f1": MetricValues(0.9, 0.8, 0.7, (0.7, 0.9))})
    assert [quantity.name for quantity in QUANTITIES] + ["macro_f1", "macro_f1_mean_agent", "macro_f1_worst_agent"] + [
        "active"
    ] == list(record.numbers())
    assert record.numbers()["macro_f1_worst_agent"] == 0.7
    assert record.numbers()["worst_agent"] == 0.8


def test_a_record_without_what_later_versions_measure_is_read(write):
    plain = RECORD.as_json()
    for name in ("class_accuracy", "agent_class_accuracy", "metrics", "metric_tables"):
        del plain[name]
    (back,) = read_records(write(json.dumps(plain) + "\n"))
    assert back == replace(RECORD, class_accuracy=(), agent_class_accuracy=())


FAULTS = [
    (line(metrics={"f1": 3}), "metrics.f1 must be an object; found 3"),
    (line(metrics={"f1": {"averaged": 1.0}}), "lacks the field metrics.f1.mean_agent"),
    (line(metric_tables={"c": {"averaged": [["x"]], "agents": []}}), "metric_tables.c.averaged.0.0 must be a finite"),
    (line(step=-1), "step must be a whole number from 0 to 9223372036854775807; found -1"),
    (line(step=1.0), "step must be a whole number"),
    (line(step=True), "step must be a whole number"),
    (line(step=2**63), "found a number of 64 bits"),
    (line(loss="1"), "loss must be a finite number or null; found '1'"),
    (line(loss=10**350), "loss must be a finite number or null; found a number of 1163 bits"),
    (line(loss=0.25).replace("0.25", "1e999"), "loss must be a finite number or null; found inf"),
    (line(loss=0.25).replace("0.25", "NaN"), "expected null where a number is not finite; found NaN"),
    (line(loss=0.25).replace("0.25", "1" * 5000), "expected numbers of at most 400 digits; found one of 5000"),
    (line(accuracy=[0.1]), "accuracy must be a finite number or null; found a list of 1"),
    (line(status="x" * 1000), "status must be one of ok, nonfinite, exploded, collapsed; found 'xxxx"),
    (line(agent_accuracy={}), "agent_accuracy must be a list; found an object of 0"),
    (line(bytes_by_agent=[1, None]), "bytes_by_agent.1 must be a whole number"),
    (line(bytes_by_kind=[]), "bytes_by_kind must be an object of at most 1000 fields; found a list of 0"),
    (line(diagnostics=dict.fromkeys(map(str, range(1001)), 0)), "diagnostics must be an object of at most 1000"),
    (line(more=1), "a record has certain fields only; found 'more'"),
    (line().replace('"step"', '"stop"'), "lacks the field 'step'"),
    (line().replace('"epoch"', '"step"'), "expected every field once"),
    ("[1, 2]\n", "a record must be an object with a field for each number; this is a list of 2"),
    ("nonsense\n", "expected a record as JSON; found a fault at character 1"),
    ("\n", "expected a record as JSON"),
    ("[" * 100_000 + "\n", "nested too deeply"),
    (b"\xff\xfe\n", "found bytes that are no text"),
    (line()[:-30], "found one cut short. Remove it"),
    (b" " * (MAX_RECORD_BYTES + 1), "expected lines of at most 16,777,216 bytes"),
]


@pytest.mark.parametrize(("content", "sentence"), FAULTS, ids=[sentence[:40] for _, sentence in FAULTS])
def test_a_line_that_is_no_record_is_refused_with_its_number(write, content, sentence):
    file = write(line().encode() + (content if isinstance(content, bytes) else content.encode()))
    with pytest.raises(ValueError, match=r"records\.jsonl, line 2: ") as error:
        read_records(file)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def test_what_is_no_file_of_records_is_refused(tmp_path, write):
    with pytest.raises(FileNotFoundError):
        read_records(tmp_path / "nothing")
    with pytest.raises(ValueError, match="found a folder or a device"):
        read_records(tmp_path)
    with pytest.raises(ValueError, match="found no lines"):
        read_records(write(""))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="found a folder or a device"):
        read_records(tmp_path / "pipe")


def test_a_file_with_too_many_records_is_refused_before_they_fill_the_memory(write, monkeypatch):
    monkeypatch.setattr("crossgrad.records.file.MAX_RECORDS_BYTES", 10 * len(line()))
    assert len(read_records(write(10 * line()))) == 10
    with pytest.raises(ValueError, match=r"line 11: expected a file of at most"):
        read_records(write(11 * line()))
