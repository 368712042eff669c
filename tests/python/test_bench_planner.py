# SPDX-License-Identifier: Apache-2.0
"""The benchmark's parts about the planner and about calls, without a GPU."""

import sys

import pytest

import convt_abi

sys.path.insert(0, str(convt_abi.ROOT / "bench"))

import cuda_driver  # noqa: E402
import gpu_calls  # noqa: E402
import gpu_chains  # noqa: E402
import gpu_planner  # noqa: E402
import ours  # noqa: E402
import timing  # noqa: E402
import workload  # noqa: E402


def test_candidates_are_those_of_the_explanation():
    """Each can be forced by its name, and is then the only one that accepts."""
    text = "conv_transpose2d channels=16->24 input=900 kernel=3 | bias | instance_norm | relu"
    chosen, accepted = gpu_planner.candidates_of(convt_abi.Plan(text).explain())
    assert len(accepted) >= 2 and chosen in accepted
    assert all(seconds > 0 for seconds in accepted.values())
    predicted = convt_abi.Plan(text).predicted_seconds()
    assert accepted[chosen] == pytest.approx(predicted, rel=1e-2)
    for name, seconds in accepted.items():
        plan = convt_abi.Plan(text, engine=name)
        assert gpu_planner.candidates_of(plan.explain()) == (name, {name: seconds})
        assert plan.predicted_seconds() == pytest.approx(seconds, rel=1e-2)
    with pytest.raises(convt_abi.ConvtError, match="'cpu nonsuch' is asked for"):
        convt_abi.Plan(text, engine="cpu nonsuch")


def test_units():
    text = "  a b                    accepts, predicts 3.5 us\n  c     accepts, predicts 1.25 ms\n  d  rejects: why\n" \
           "  chosen                 a b\n                         some detail\n"
    assert gpu_planner.candidates_of(text) == ("a b", {"a b": 3.5e-6, "c": 1.25e-3})


def test_there_are_enough_cases():
    cases = list(gpu_planner.cases())
    assert len(cases) >= 300
    for _, kind, text in cases[::17]:
        assert kind and convt_abi.Plan(text).text


def case(kind, predicted, measured, small=False, mode="tf32"):
    """The first is the choice; None was not measured."""
    candidates = [{"name": f"engine {i}", "predicted_ms": one, "ms": other, "error": 0.0, "failure": None}
                  for i, (one, other) in enumerate(zip(predicted, measured))]
    return gpu_planner.judged({"layer": "some", "kind": kind, "mode": mode, "case": f"conv | {kind}",
                               "chosen": "engine 0", "candidates": candidates, "small": small})


def test_regret_and_prediction():
    assert case("a", [1.0, 2.0], [1.5, 1.2])["of_predicted"] == 1.5
    assert case("a", [1.0, 2.0], [1.5, 1.2])["regret"] == pytest.approx(1.25)
    assert case("a", [1.0, 2.0], [1.5, None])["regret"] == 1
    assert case("a", [1.0], [0.01], small=True)["regret"] is None
    entries = [case("pools", [1.0, 2.0], [1.5, 1.2]), case("pools", [1.0, 2.0], [2.0, 2.0]),
               case("norms", [1.0], [0.5]), case("norms", [1.0], [None], small=True)]
    entries[0]["candidates"][1]["failure"] = "wrong result: error 1"
    text = gpu_planner.render(entries)
    (pools,) = [line for line in text.splitlines() if line.startswith("| tf32, pools")]
    assert [cell.strip() for cell in pools.split("|")[2:6]] == ["2", "1.73", "50 %", "1.50"]
    assert [cell.strip() for cell in pools.split("|")[7:10]] == ["50 %", "1.12", "1.25"]
    (everything,) = [line for line in text.splitlines() if line.startswith("| all")]
    assert [cell.strip() for cell in everything.split("|")[2:5]] == ["3", "1.14", "33 %"]
    assert "1 smaller cases" in text and "engine 1: wrong result" in text and "1.25: some tf32, pools; engine 0" in text
    assert gpu_planner.failed(entries[0]) and not gpu_planner.failed(entries[1])
    assert gpu_planner.render([entries[3]]) == "nothing was measured"


def test_small_cases_are_not_compared(monkeypatch):
    def measure(contenders, rounds, _):
        for contender in contenders:
            contender.samples += [contender.call()] * rounds
    monkeypatch.setattr(gpu_planner.gpu_timing, "measure", measure)
    slow, quick = timing.Contender("slow", lambda: 1e-3), timing.Contender("quick", lambda: 1e-5)
    assert gpu_planner.measured([slow, quick], 50e-6)
    assert len(slow.samples) == len(quick.samples) == gpu_planner.ROUNDS
    slow.samples.clear()
    quick.samples.clear()
    assert not gpu_planner.measured([quick, slow], 50e-6) and not slow.samples
    assert not gpu_planner.measured([timing.Contender("broken", None, failure="no")], 50e-6)


class Graph:
    """The driver, for a graph of a kernel with 40 bytes of parameters, a memset, one with 4100, and an empty node."""

    nodes = {1: (cuda_driver.KERNEL, [(0, 8), (8, 32)]), 2: (cuda_driver.MEMSET, []),
             3: (cuda_driver.KERNEL, [(0, 4100)]), 4: (5, [])}

    def __init__(self):
        self.log = []

    def __getattr__(self, name):
        if name.startswith("do_"):
            raise AttributeError(name)

        def function(*arguments):
            self.log.append(name)
            return getattr(self, f"do_{name}", lambda *_: 0)(*arguments)
        return function

    def do_cuGraphGetNodes(self, _, nodes, count):
        count._obj.value = len(self.nodes)
        if nodes is not None:
            nodes[:] = list(self.nodes)
        return 0

    def do_cuGraphNodeGetType(self, node, what):
        what._obj.value = self.nodes[node.value][0]
        return 0

    def do_cuGraphKernelNodeGetParams_v2(self, node, to):
        to._obj.kernel = node.value  # as of the runtime's launches: no function
        return 0

    def do_cuKernelGetParamInfo(self, kernel, index, offset, size):
        parameters = self.nodes[kernel.value][1]
        if index.value >= len(parameters):
            return 1
        offset._obj.value, size._obj.value = parameters[index.value]
        return 0


def driver():
    made = object.__new__(cuda_driver.Driver)
    made.library = Graph()
    return made


def test_launches_are_counted():
    own = driver()
    called = []
    assert own.launches_of(lambda: called.append(list(own.library.log)), 7) == [40, None, 4100]
    assert called == [["cuStreamBeginCapture_v2"]] and own.library.log[1] == "cuStreamEndCapture"
    assert own.library.log[-1] == "cuGraphDestroy"
    own.library.do_cuStreamBeginCapture_v2 = lambda *_: 901
    with pytest.raises(RuntimeError, match="cuStreamBeginCapture_v2 answers CUDA error 901"):
        own.launches_of(lambda: None, 7)


def test_empty_launches_have_as_many_bytes():
    own = driver()
    launch, rejected = own.empty_launch(4100, 7)
    assert launch() == 0 and rejected() == 0
    assert own.library.log == ["cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuLaunchKernel"]
    assert "parameters[4100]" in cuda_driver.PTX.format(size=4100) and "{ ret; }" in cuda_driver.PTX.format(size=4100)


def test_python_takes_a_part_of_calls(monkeypatch):
    """The call that is taken off does nothing: its output stays as it was."""
    row = convt_abi.named_problems()[0]
    case = workload.Workload(row["slug"], row["demo_case"])
    before = ours.precision("tf32")
    before()
    outputs = []
    monkeypatch.setattr(gpu_calls, "host_seconds", lambda call: outputs.append(call()) or 1e-6)
    assert gpu_calls.python_seconds("named problem", case, row) == gpu_calls.python_seconds("plan", case, row) == 1e-6
    assert outputs[0].isnan().all() and outputs[1] >= 1
    ours.precision("ieee")()


def test_floors_of_calls(monkeypatch):
    class Fake:
        def empty_launch(self, size, stream):
            assert stream == 7
            return size, 0
    monkeypatch.setattr(gpu_calls, "host_seconds", lambda size: 1e-6 + 1e-9 * size)
    floors = gpu_calls.Floors(Fake(), 7)
    assert floors.of([40, None, 4000]) == pytest.approx(1e-9 * (40 + 64 + 4000))
    entry = {"name": "one", "mode": "bf16", "failure": None, "way": "plan",
             **gpu_calls.judged("plan", 12e-6, [40, None, 4000], 5e-6)}
    assert entry["launches"] == 3 and entry["bytes"] == 4040 and entry["own_us"] == pytest.approx(7)
    assert not entry["holds"] and gpu_calls.judged("named problem", 12e-6, [40], 5e-6)["holds"]
    text = gpu_calls.render([entry, {"name": "two", "mode": "bf16", "way": "plan", "failure": "no memory"}])
    assert "7.0 (<= 6) MISSED" in text and "- two bf16, plan: no memory" in text
    assert workload.TORCH  # the modules that measure are importable without a GPU


def test_bars_of_chains():
    class Tensor:
        bytes = 4000
    alone = gpu_chains.Alone(1e-3, 3_000_000)
    kinds = {kind for kind, _ in gpu_chains.read_chains()}
    assert set(gpu_chains.BARS) | {gpu_chains.NORMS} <= kinds
    assert gpu_chains.bar_of("one transcendental op", "tf32", alone, [], 4e9) == pytest.approx(1.25e-3)
    assert gpu_chains.bar_of("whole tensors", "bf16", alone, [Tensor], 4e9) == pytest.approx(1.3e-3 + 1e-6)
    assert gpu_chains.bar_of("norms over space", "bf16", alone, [], 4e9) == pytest.approx(1e-3 + 1.4 * 1.5e-3)
    assert gpu_chains.bar_of("pools", "bf16", alone, [], 4e9) is None
    entries = [{"ms": 1.0, "bar_ms": 1.1}, {"ms": 1.0, "bar_ms": 0.9}, {"ms": 1.0, "bar_ms": None}]
    assert gpu_chains.judged(entries) == "; 1 of 2 hold the bar" and gpu_chains.judged(entries[2:]) == ""
