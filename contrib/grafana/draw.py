#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the dashboard from a running Prometheus, as SVG on standard output:

    contrib/grafana/draw.py http://127.0.0.1:9090 SECONDS >docs/dashboard.svg

It is the README's picture: the panels, queries and values are the dashboard's, the drawing is not Grafana's.
"""

import json
import os
import sys
import time
import urllib.parse
import urllib.request
from xml.sax.saxutils import escape

WIDTH, ROW, GAP = 1200, 27, 6
COLOURS = "#73bf69 #f2cc0c #5794f2 #ff9830 #f2495c #b877d9 #8ab8ff #96d98d #ffee52 #ffa6b0".split()


def fetch(server, expression, seconds):
    text = expression.replace("$broker", ".*").replace("$__rate_interval", "20s")
    end = time.time()
    query = urllib.parse.urlencode({"query": text, "start": end - seconds, "end": end, "step": max(1, seconds / 150)})
    with urllib.request.urlopen(f"{server}/api/v1/query_range?{query}") as answer:
        return json.load(answer)["data"]["result"]


def label(legend, metric):
    for key, value in metric.items():
        legend = legend.replace("{{%s}}" % key, value)
    return legend


def write(value, unit):
    if unit == "percentunit":
        return f"{100 * value:.0f} %"
    if unit == "s":
        for size, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
            if value >= size or name == "us":
                return f"{value / size:.3g} {name}"
    for size, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")) if unit == "bytes" else ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g}" + (" B" if unit == "bytes" else "/s" if unit == "reqps" else "")


def series_of(server, panel, seconds):
    for target in panel["targets"]:
        for result in fetch(server, target["expr"], seconds):
            points = [(float(at), float(value)) for at, value in result["values"] if value != "NaN"]
            if points:
                yield label(target["legendFormat"], result["metric"]), points


def text_at(x, y, text, size=11, colour="#ccccdc", anchor="start"):
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def draw_stat(x, y, w, h, series, unit):
    each = w / max(1, len(series))
    for i, (name, points) in enumerate(series):
        middle = x + each * (i + 0.5)
        yield text_at(middle, y + h * 0.66, write(points[-1][1], unit), 24, COLOURS[i % len(COLOURS)], "middle")
        yield text_at(middle, y + h * 0.88, name[:28], 10, anchor="middle")


def draw_lines(x, y, w, h, series, unit, stacked, seconds):
    end = max((points[-1][0] for _, points in series), default=0)
    below, top, shapes = {}, 0, []
    for i, (name, points) in enumerate(series):
        stack = stacked and not name.startswith("all of ")
        upper = [(at, value + (below.get(at, 0) if stack else 0)) for at, value in points]
        lower = [(at, below.get(at, 0)) for at, _ in points] if stack else []
        below.update(upper if stack else [])
        top = max([top] + [value for _, value in upper])
        shapes.append((COLOURS[i % len(COLOURS)], upper, lower))
    left, bottom, height = x + 58, y + h - 34, h - 66

    def place(point):
        across = left + (point[0] - end + seconds) / seconds * (w - 68)
        return f"{across:.1f},{bottom - point[1] / (top or 1) * height:.1f}"

    for part in (0, 0.5, 1):
        yield f'<path d="M{left} {bottom - part * height:.1f}h{w - 68}" stroke="#2c3235"/>'
        yield text_at(left - 6, bottom - part * height + 4, write(part * top, unit), 10, "#8e8e9a", "end")
    for colour, upper, lower in shapes:
        if lower:
            yield f'<polygon points="{" ".join(map(place, upper + lower[::-1]))}" fill="{colour}" fill-opacity="0.25"/>'
        yield f'<polyline points="{" ".join(map(place, upper))}" fill="none" stroke="{colour}" stroke-width="1.3"/>'
    at = x + 10
    for (colour, _, _), (name, _) in zip(shapes, series):
        short = name if len(name) < 32 else name[:14] + "..." + name[-6:]
        if at + 14 + 6 * len(short) > x + w:
            break
        yield f'<rect x="{at:.0f}" y="{y + h - 17}" width="9" height="4" fill="{colour}"/>' + text_at(
            at + 13, y + h - 11, short, 10
        )
        at += 24 + 5.6 * len(short)


def draw(server, seconds, panels):
    height = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in panels) * ROW + GAP
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">'
        f'<rect width="{WIDTH}" height="{height}" fill="#111217"/>'
    )
    for panel in panels:
        grid, unit = panel["gridPos"], panel["fieldConfig"]["defaults"]["unit"]
        x, y, w, h = (
            grid["x"] * WIDTH / 24 + GAP / 2,
            grid["y"] * ROW + GAP,
            grid["w"] * WIDTH / 24 - GAP,
            grid["h"] * ROW - GAP,
        )
        yield f'<rect x="{x:.0f}" y="{y}" width="{w:.0f}" height="{h}" rx="2" fill="#181b1f" stroke="#2c3235"/>'
        yield text_at(x + 10, y + 18, panel["title"], 13)
        series = list(series_of(server, panel, seconds))
        if panel["type"] == "stat":
            yield from draw_stat(x, y, w, h, series, unit)
        else:
            stacked = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
            yield from draw_lines(x, y, w, h, series, unit, stacked, seconds)
    yield "</svg>"


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpubroker.json"), encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    print("\n".join(draw(sys.argv[1], int(sys.argv[2]), panels)))


if __name__ == "__main__":
    main()
