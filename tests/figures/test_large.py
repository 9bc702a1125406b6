"""Presenter size: everything drawn grows by the factor, and the figure that was given stays as it is."""

from __future__ import annotations

import plotly.graph_objects as go

from dpcl_core.figures.theme import enlarged


def test_letters_lines_and_markers_grow_and_the_data_do_not() -> None:
    figure = go.Figure(
        [
            go.Scatter(x=[0, 1], y=[2, 3], line={"width": 2}, marker={"size": 6}),
            go.Bar(x=["a", "b"], y=[1, 2], marker={"line": {"width": 1}}),
            go.Scatter(x=[0], y=[1], marker={"size": [4]}),
        ],
        layout={"font": {"size": 10}, "height": 300, "margin": {"l": 40, "t": 0}, "xaxis": {"tickfont": {"size": 8}}},
    )
    figure.add_annotation(text="here", x=0, y=2)
    before = figure.to_json()
    larger = enlarged(figure, 1.5)
    assert figure.to_json() == before
    assert (larger.layout.font.size, larger.layout.annotations[0].font.size) == (15, 15)
    assert larger.layout.xaxis.tickfont.size == 12
    assert (larger.layout.margin.l, larger.layout.margin.r, larger.layout.height) == (60, None, 300)
    assert (larger.data[0].line.width, larger.data[0].marker.size, larger.data[2].marker.size) == (3, 9, (4,))
    assert [tuple(trace.y) for trace in larger.data] == [(2, 3), (1, 2), (1,)]
