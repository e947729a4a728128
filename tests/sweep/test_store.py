"""Whatever the records hold is in SQL, without a list of columns."""

from dataclasses import replace

from crossgrad._runs.results import RunResult
from crossgrad._sweep.store import Store
from crossgrad.records.record import MetricValues, Record

RECORD = Record(20, 1.5, 0.01, 0.7, 0.25, 0.5, 0.9, (0.8, 1.0), 1e-9, 800, {"model": 800}, (400, 400), 40, 0.1)


def test_metrics_and_diagnostics_are_columns_as_soon_as_a_record_has_them(tmp_path):
    store = Store(tmp_path)
    plain = RunResult("one", {"seed": "0"}, {}, (RECORD,), {"ended": "finished"}, {})
    store.add(plain, plain.labels)
    told = replace(RECORD, metrics={"auroc": MetricValues(0.9, 0.8, float("nan"), ())}, diagnostics={"links": 0.5})
    more = replace(plain, name="two", records=(told,))
    store.add(more, {"seed": "0", "Auroc": "high"})
    cells = "SELECT cell, auroc, auroc_mean_agent, auroc_worst_agent, links, Auroc_ FROM cells ORDER BY cell"
    assert store.query(cells)[1] == [("one", None, None, None, None, None), ("two", 0.9, 0.8, None, 0.5, "high")]
    assert store.query("SELECT cell, auroc, links FROM records WHERE auroc > 0")[1] == [("two", 0.9, 0.5)]
