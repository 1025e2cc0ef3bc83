#!/usr/bin/env python3
"""psd beside PyTorch on one GPU: a table that anybody can print again.

    gpu_table.py --figures BUILD/tests/bench/gpu_figures [--device cuda] [--rounds 2] [--torch PYTHON] [ROW...]

Runs gpu_figures and torch_figures.py in turns, as processes of their own, and prints for each row the medians over the
rounds and psd's time as a share of PyTorch's. Without torch its columns are empty. Two rounds take about five minutes.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PRECISIONS = ("float32", "tf32", "bfloat16")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", required=True, help="the program gpu_figures")
    parser.add_argument("--device", default="cuda", help="psd's device (default cuda)")
    parser.add_argument("--rounds", type=int, default=2, help="how often each is run (default 2)")
    parser.add_argument("--torch", default="python3", help="a Python that has torch (default python3)")
    parser.add_argument("--precision", action="append", choices=PRECISIONS,
                        help="may be repeated (default: all three)")
    parser.add_argument("--short", action="store_true", help="small shapes, which show nothing but that every row runs")
    parser.add_argument("row", nargs="*", help="these rows alone")
    return parser.parse_args()


def figures(command):
    """The rows that a program prints, in their order. It says itself why it fails."""
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"gpu_table.py: {command[0]} ended with status {ran.returncode}")
    return {name: float(took) for name, took in (line.split("\t") for line in ran.stdout.splitlines())}


def has_torch(python):
    try:
        return subprocess.run([python, "-c", "import torch; assert torch.cuda.is_available()"],
                              stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def measure(options, precision, with_torch):
    ours, theirs = {}, {}
    for _ in range(options.rounds):
        command = [options.figures, options.device] + ["--short"] * options.short + ["--precision", precision]
        for name, took in figures(command + options.row).items():
            ours.setdefault(name, []).append(took)
        if with_torch:
            command = [options.torch, str(HERE / "torch_figures.py"), "--precision", precision]
            for name, took in figures(command + options.row).items():
                theirs.setdefault(name, []).append(took)
    return ours, theirs


def main():
    options = parse()
    with_torch = has_torch(options.torch)
    if not with_torch:
        print(f"# {options.torch} has no torch with a GPU: psd alone")
    for precision in options.precision or PRECISIONS:
        ours, theirs = measure(options, precision, with_torch)
        print(f"\n{precision + ', us':<58} {'psd':>11} {'torch':>11} {'psd/torch':>10}")
        for name, took in ours.items():
            mine = statistics.median(took)
            peer = statistics.median(theirs[name]) if name in theirs else None
            print(f"{name:<58} {mine:>11.1f} " + (f"{peer:>11.1f} {mine / peer:>10.2f}" if peer else f"{'-':>11}"),
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
