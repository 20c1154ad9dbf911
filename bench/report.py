"""From raw rounds to medians, ratios, a Markdown table and a plot. Everything but plot() needs only the standard library.

A result file is {"setup": {...}, "rounds": [{"model", "round", "engine", and either figures or "error"}, ...]}.
"""
import statistics

OURS = "libinfer"
COLUMNS = {  # figure: (title, number format, larger is better)
    "prompt_tps": ("prompt, tokens/s", "{:.1f}", True),
    "gen_tps": ("generation, tokens/s", "{:.1f}", True),
    "start_ms": ("process start to first logits, ms", "{:.0f}", False),
    "peak_rss_mb": ("peak resident memory, MiB (with the mapped file)", "{:.0f}", False),
    "load_ms": ("load, ms", "{:.0f}", False),
}


def column(figure):
    if figure.startswith("batch_"):
        return f"{figure.split('_')[1]} sequences stepped together, tokens/s over all", "{:.1f}", True
    return COLUMNS[figure]


def ordered(items):
    return list(dict.fromkeys(items))


def values(rounds, model, engine, figure):
    """{round: value} of the rounds that worked."""
    return {r["round"]: r[figure] for r in rounds
            if r["model"] == model and r["engine"] == engine and r.get(figure) is not None}


def medians(rounds, model, figure):
    """{engine: median}, engines without a single good round left out."""
    out = {}
    for engine in ordered(r["engine"] for r in rounds if r["model"] == model):
        got = values(rounds, model, engine, figure)
        if got:
            out[engine] = statistics.median(got.values())
    return out


def fastest_peer(rounds, model, figure):
    """The peer configuration with the best median, or None."""
    peers = {e: m for e, m in medians(rounds, model, figure).items() if not e.startswith(OURS)}
    if not peers:
        return None
    return (max if column(figure)[2] else min)(peers, key=peers.get)


def ratio(rounds, model, figure, peer, ours=OURS):
    """libinfer over the peer, pairs of the same round: (median, lowest, highest, pairs) or None."""
    mine, theirs = values(rounds, model, ours, figure), values(rounds, model, peer, figure)
    got = sorted(mine[i] / theirs[i] for i in mine if i in theirs)
    return (statistics.median(got), got[0], got[-1], len(got)) if got else None


def errors(rounds):
    """{(model, engine): text of the first failure}"""
    out = {}
    for r in rounds:
        if "error" in r:
            out.setdefault((r["model"], r["engine"]), r["error"])
    return out


def cell(rounds, model, engine, figure):
    got = values(rounds, model, engine, figure)
    failed = sum(r["model"] == model and r["engine"] == engine and "error" in r for r in rounds)
    if not got:
        return "failed" if failed else "–"
    return column(figure)[1].format(statistics.median(got.values())) + (f" ({failed} failed)" if failed else "")


def figure_table(rounds, figure):
    title, _, _ = column(figure)
    models, engines = ordered(r["model"] for r in rounds), ordered(r["engine"] for r in rounds)
    lines = [f"**{title}**", "", f"| model | {' | '.join(engines)} | fastest peer | libinfer / fastest peer |",
             "|---" * (len(engines) + 3) + "|"]
    for model in models:
        peer = fastest_peer(rounds, model, figure)
        r = ratio(rounds, model, figure, peer) if peer else None
        text = f"**{r[0]:.2f}** ({r[1]:.2f}–{r[2]:.2f}, {r[3]} rounds)" if r else "–"
        cells = [cell(rounds, model, e, figure) for e in engines]
        lines.append(f"| {model} | {' | '.join(cells)} | {peer or '–'} | {text} |")
    return lines


def markdown(result, figures):
    rounds, setup = result["rounds"], result["setup"]
    lines = []
    for figure in figures:
        if any(r.get(figure) is not None for r in rounds):
            lines += figure_table(rounds, figure) + [""]
    if setup.get("limits"):
        lines += ["**Shares of the machine's limits** (infer-bench, same run)", "", "| model | read GB/s | int8 G multiply-adds/s "
                  "| generation, of the read limit | prompt, of the int8 peak |", "|---|---|---|---|---|"]
        for model, x in setup["limits"].items():
            lines.append(f"| {model} | {x['limit_read_gbs']:.1f} | {x['limit_int8_gmacs']:.0f} | {x['read_share']:.2f} | {x['int8_share']:.2f} |")
        lines.append("")
    lines += ["Medians; the ratio is the median of the ratios within a round, lowest and highest in brackets.", ""]
    lines += [f"- {k}: {v}" for k, v in setup.get("notes", {}).items()]
    failed = errors(rounds)
    if failed:
        lines += ["", "Failed:"] + [f"- {model}, {engine}: {text}" for (model, engine), text in failed.items()]
    return "\n".join(lines) + "\n"


def relative(rounds, figure):
    """(models, engines, {engine: [value / fastest peer's, or None]}) for the plot."""
    models, engines = ordered(r["model"] for r in rounds), ordered(r["engine"] for r in rounds)
    out = {e: [] for e in engines}
    for model in models:
        m, peer = medians(rounds, model, figure), fastest_peer(rounds, model, figure)
        for e in engines:
            out[e].append(m[e] / m[peer] if peer and e in m else None)
    return models, engines, out


def plot(result, figures, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    rounds = result["rounds"]
    figures = [f for f in figures if any(r.get(f) is not None for r in rounds)]
    fig, axes = plt.subplots(len(figures), 1, figsize=(8, 2.9 * len(figures)), squeeze=False, layout="constrained")
    greys = ["#9aa5b1", "#c3cad2", "#7b8794", "#dde2e7", "#616e7c", "#b0b8c1"]
    for ax, figure in zip(axes[:, 0], figures):
        models, engines, bars = relative(rounds, figure)
        width = 0.84 / len(engines)
        other = iter(greys)
        for k, engine in enumerate(engines):
            x = [i - 0.42 + (k + 0.5) * width for i in range(len(models))]
            color = "#d9480f" if engine == OURS else next(other, "#cccccc")
            ax.bar(x, [v or 0 for v in bars[engine]], width * 0.92, label=engine, color=color)
            for at, v in zip(x, bars[engine]):
                if v is None:
                    ax.text(at, 0.02, "×", ha="center", fontsize=7)
                elif engine == OURS:
                    ax.text(at, v + 0.02, f"{v:.2f}", ha="center", fontsize=7)
        ax.axhline(1, color="#333333", linewidth=0.8)
        ax.set_xticks(range(len(models)), models)
        better = "higher is better" if column(figure)[2] else "lower is better"
        ax.set_title(f"{column(figure)[0]}, relative to the fastest peer ({better})", fontsize=9)
        ax.tick_params(labelsize=8)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    axes[0, 0].legend(fontsize=7, ncols=min(6, len(engines)), loc="upper center", bbox_to_anchor=(0.5, 1.32), frameon=False)
    fig.savefig(path, dpi=110)
