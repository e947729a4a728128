"""Work in blocks of bounded size."""

from threading import Barrier, Thread

from crossgrad._numerics.blocks import bounded, scaled_bounds


def test_bounds_are_as_before_after_two_threads_scaled_them_at_the_same_time():
    entered, left, within, after = Barrier(2), Barrier(2), {}, {}

    def measure(name, scale, first_to_leave):
        with scaled_bounds(scale):
            entered.wait(10)
            within[name] = bounded(1000)
            if not first_to_leave:
                left.wait(10)
        if first_to_leave:
            left.wait(10)
        after[name] = bounded(1000)

    threads = [Thread(target=measure, args=(name, scale, name == "a")) for name, scale in (("a", 0.5), ("b", 0.1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert within == {"a": 500, "b": 100}
    assert after == {"a": 1000, "b": 1000}
    assert bounded(1000) == 1000
