"""PyTorch's part of gpu_table.py: the rows of gpu_figures.c, by the same names and shapes.

    torch_figures.py [--precision float32|tf32|bfloat16] [ROW...]

Prints "name<TAB>microseconds" for each row: the median of seven bursts of calls, each waited for. Operations are those
that a PyTorch program would call; optimizers are the fused ones; steps take their batch from pinned memory and read the
loss back.
"""
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

BURSTS = 7
BURST_SECONDS = 0.02
CALLS_MAX = 20000
ELEMENTS = 64 << 20


def parse(arguments):
    precision, wanted = "float32", []
    while arguments:
        word = arguments.pop(0)
        if word == "--precision":
            precision = arguments.pop(0)
        else:
            wanted.append(word)
    return precision, wanted


def burst(work, calls):
    begun = time.perf_counter()
    for _ in range(calls):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / calls


def row(name, work):
    if wanted and name not in wanted:
        return
    for _ in range(3):
        burst(work, 1)  # libraries are loaded, algorithms chosen
    calls = min(CALLS_MAX, int(BURST_SECONDS / (burst(work, 1) + 1e-7)) + 1)
    took = statistics.median(burst(work, calls) for _ in range(BURSTS))
    print(f"{name}\t{took * 1e6:.2f}", flush=True)


def floats(*shape):
    return torch.rand(*shape, device="cuda") * 2 - 1


def gradient_row(name, output, inputs):
    dy = torch.rand_like(output)
    row(name, lambda: torch.autograd.grad(output, inputs, dy, retain_graph=True))


def copies(x, y):
    plain = torch.rand(ELEMENTS)
    pinned = plain.pin_memory()
    row("copy 64 Mi floats", lambda: y.copy_(x))
    row("to the device, pinned 256 MiB", lambda: x.copy_(pinned, non_blocking=True))
    row("to the host, pinned 256 MiB", lambda: pinned.copy_(x, non_blocking=True))
    row("to the device, pageable 256 MiB", lambda: x.copy_(plain))
    row("to the host, pageable 256 MiB", lambda: plain.copy_(x))


def elements(x, y):
    row("relu 64 Mi floats", lambda: torch.clamp_min(x, 0, out=y))
    row("gelu 64 Mi floats", lambda: F.gelu(x))
    row("dropout 64 Mi floats", lambda: F.dropout(x, 0.25))
    row("norm of 20 M floats, read back", lambda: torch.linalg.vector_norm(x[:20037642]).item())
    ids = torch.randint(0, 1000, (1 << 20,), device="cuda")
    row("count of equal 1 Mi ids, read back", lambda: (ids == ids.flip(0)).sum().item())
    for name, kind in (("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)):
        weights = nn.Parameter(x.clone())
        weights.grad = y
        row(f"{name} 64 Mi floats", kind([weights], lr=1e-3, fused=True).step)
        del weights


def rows():
    x = floats(8192, 4096).requires_grad_()
    gamma, beta = floats(4096).requires_grad_(), floats(4096).requires_grad_()
    with torch.no_grad():
        row("layer_norm forward 8192x4096", lambda: F.layer_norm(x, (4096,), gamma, beta))
    gradient_row("layer_norm backward 8192x4096", F.layer_norm(x, (4096,), gamma, beta), (x, gamma, beta))
    dy = floats(401408, 16)
    row("bias gradient 401408x16", lambda: dy.sum(0))
    logits = floats(8192, 1000).requires_grad_()
    labels = torch.randint(0, 1000, (8192,), device="cuda")
    row("softmax with cross-entropy 8192x1000",
        lambda: torch.autograd.grad(F.cross_entropy(logits, labels), logits))
    table = floats(100000, 64).requires_grad_()
    for count, below, name in ((32768, 100000, "32768 ids"), (262144, 100000, "262144 ids"),
                               (32768, 2, "32768 ids, 2 distinct")):
        ids = torch.randint(0, below, (count,), device="cuda")
        gradient_row(f"embedding gradient {name}", F.embedding(ids, table), table)


def convolutions():
    for batch, side, inputs, outputs, kernel in ((512, 28, 1, 16, 3), (512, 14, 16, 32, 3), (512, 28, 1, 16, 5),
                                                 (512, 14, 16, 32, 5), (32, 56, 64, 64, 3)):
        name = f"conv {side}x{side}x{inputs} -> {outputs}, {kernel}x{kernel}, batch {batch}"
        x = floats(batch, inputs, side, side).requires_grad_()
        w, b = floats(outputs, inputs, kernel, kernel).requires_grad_(), floats(outputs).requires_grad_()
        with torch.no_grad():
            row(f"{name}, forward", lambda: F.conv2d(x, w, b, padding=kernel // 2))
        gradient_row(f"{name}, backward", F.conv2d(x, w, b, padding=kernel // 2), (x, w, b))


def step(name, network, batch, precision):
    """A step as its user writes it: gradients zeroed, forward, loss, backward, Adam, the loss read back."""
    network = network.to("cuda")
    if any(isinstance(layer, nn.Conv2d) for layer in network):
        network = network.to(memory_format=torch.channels_last)
    adam = torch.optim.Adam(network.parameters(), fused=True)
    x = torch.rand(batch, 1, 28, 28).pin_memory()
    labels = torch.randint(0, 10, (batch,)).pin_memory()

    def work():
        adam.zero_grad(set_to_none=True)
        there, wanted_labels = x.to("cuda", non_blocking=True), labels.to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
            loss = F.cross_entropy(network(there), wanted_labels)
        loss.backward()
        adam.step()
        return loss.item()

    row(name, work)


def steps(precision):
    for sizes, batch in (((784, 128, 10), 96), ((784, 4096, 4096, 10), 1024), ((784, 4096, 4096, 10), 8192)):
        layers = [nn.Flatten()]
        for inputs, outputs in zip(sizes, sizes[1:]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        step(f"step {'-'.join(map(str, sizes))}, batch {batch}", nn.Sequential(*layers[:-1]), batch, precision)
    conv = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
                         nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(), nn.Linear(1568, 10))
    step("step digits conv 28x28, batch 512", conv, 512, precision)


precision, wanted = parse(sys.argv[1:])
torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
print(f"# torch {torch.__version__}, {torch.cuda.get_device_name(0)}", file=sys.stderr)
if precision == "float32":
    first, second = floats(ELEMENTS), floats(ELEMENTS)
    copies(first, second)
    elements(first, second)
    del first, second
    rows()
convolutions()
steps(precision)
