"""What `chunkfit fit` says of its choice."""

from chunkfit import CostTable
from chunkfit.cli.table_lines import fitter_lines

OPTIONS = {
    "selection": {
        "why": "hybrid: held-out pinball at 0.5 0.350%, the next best linear 2.000%",
        "candidates": [
            {
                "name": "linear",
                "pinball_50_percent": {"points": 1.5, "values": 2.5},
                "pinball_99_percent": {"proportional": 0.3, "local": 0.25},
                "reason": None,
            },
            {"name": "boosted", "pinball_50_percent": {}, "pinball_99_percent": {}, "reason": "lightgbm [is] missing"},
        ],
    },
    "steps_found": [
        {
            "total": 257,
            "between": [256, 258],
            "rise_percent": 7.5,
            "standard_errors": 12.3,
            "points": [40, 37],
            "rows": [120, 111],
        }
    ],
}


def test_every_candidate_and_step_is_shown(made):
    document = CostTable.load(made / "table.json").document
    fitted = document.fitter.model_copy(update={"options": OPTIONS})
    lines = fitter_lines(document.model_copy(update={"fitter": fitted}))
    assert lines[0] == ("fitter", OPTIONS["selection"]["why"])
    assert lines[1][1] == (
        "held-out pinball at 0.5 by fold: points 1.500%, values 2.500%; "
        "at 0.99 by scale: proportional 0.300%, local 0.250%"
    )
    assert "not fitted: lightgbm \\[is] missing" in lines[2][1]
    assert lines[3][1].startswith("n + c = 257: 7.5% between 256 and 258 tokens, 12 standard errors, 40 and 37 points")


def test_a_table_without_a_selection_names_its_fitter(made):
    document = CostTable.load(made / "table.json").document
    fitted = document.fitter.model_copy(update={"options": {}})
    assert fitter_lines(document.model_copy(update={"fitter": fitted})) == [("fitter", "scene_experts")]
