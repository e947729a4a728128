"""The benchmark: every method on several graphs, numbers of agents and splits of the data, all tuned in the same way.

`combinations` says what is run and what is refused; `page` shows the results with filters; `rows` are those that the
package brings along, and `advice` rests on them.
"""
