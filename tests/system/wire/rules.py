"""Optimizers, schedules and clips: section 9 of proto/PROTOCOL.md, for one weight. In double, so their last bits may differ
from a shard's, but of SGD, whose arithmetic is simple enough to be rounded here as there."""

import math
import struct


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def rate_of(schedule, first, t):
    """The learning rate at t, in double."""
    kind, steps = schedule.get("kind", "SCHEDULE_CONSTANT"), schedule.get("steps", 0)
    factor, floor, warmup = schedule.get("factor", 0.0), schedule.get("floor", 0.0), schedule.get("warmup_steps", 0)
    if t < warmup:
        return first * (t + 1) / warmup
    u = t - warmup
    return {
        "SCHEDULE_CONSTANT": lambda: first,
        "SCHEDULE_STEP": lambda: max(floor, first * factor ** (u // steps)),
        "SCHEDULE_EXPONENTIAL": lambda: max(floor, first * factor ** (u / steps)),
        "SCHEDULE_COSINE": lambda: floor + (first - floor) * (1 + math.cos(math.pi * min(u, steps) / steps)) / 2,
        "SCHEDULE_LINEAR": lambda: first + (floor - first) * min(u, steps) / steps,
    }[kind]()


def sgd(w, gradient, rate):
    """To the last bit."""
    return f32(w - f32(f32(rate) * gradient))


class Weight:
    """One weight with its slots; kind is the optimizer's number, o its parameters."""

    def __init__(self, kind, o, w):
        self.kind, self.o, self.w, self.t = kind, {"learning_rate": 0.0, **o}, w, 0
        start = self.o.get("initial_accumulator", 0.0) if kind in (3, 9) else 0.0
        self.a, self.b, self.product = start, 0.0, 1.0

    def mu(self, t):
        return self.o["beta1"] * (1 - 0.96 ** (t / 250) / 2)

    def update(self, gradient):
        o, self.t = self.o, self.t + 1
        rate, g = o["learning_rate"], gradient
        if self.kind != 9:
            g += o.get("l2", 0.0) * self.w
            self.w -= rate * o.get("weight_decay", 0.0) * self.w
        getattr(self, "rule_%d" % self.kind)(g, rate)
        return self.w

    def rule_0(self, g, rate):
        self.w -= rate * g

    def rule_1(self, g, rate):
        self.a = self.o["momentum"] * self.a - rate * g
        self.w += self.a

    def rule_2(self, g, rate):
        self.a = self.o["momentum"] * self.a - rate * g
        self.w += self.o["momentum"] * self.a - rate * g

    def rule_3(self, g, rate):
        self.a += g * g
        self.w -= rate * g / (math.sqrt(self.a) + self.o["epsilon"])

    def moments(self, g):
        o = self.o
        self.a = o["beta1"] * self.a + (1 - o["beta1"]) * g
        self.b = o["beta2"] * self.b + (1 - o["beta2"]) * g * g

    def rule_4(self, g, rate):
        o = self.o
        self.moments(g)
        rate *= math.sqrt(1 - o["beta2"] ** self.t) / (1 - o["beta1"] ** self.t)
        self.w -= rate * self.a / (math.sqrt(self.b) + o["epsilon"])

    rule_6 = rule_4

    def rule_5(self, g, rate):
        o = self.o
        self.a = o["rho"] * self.a + (1 - o["rho"]) * g * g
        step = rate * g / math.sqrt(self.a + o["epsilon"])
        self.b = o.get("momentum", 0.0) * self.b + step
        self.w -= self.b

    def rule_7(self, g, rate):
        o = self.o
        self.a = o["rho"] * self.a + (1 - o["rho"]) * g * g
        d = g * math.sqrt(self.b + o["epsilon"]) / math.sqrt(self.a + o["epsilon"])
        self.b = o["rho"] * self.b + (1 - o["rho"]) * d * d
        self.w -= rate * d

    def rule_8(self, g, rate):
        t, o = self.t, self.o
        self.moments(g)
        self.product *= self.mu(t)
        c = rate * self.mu(t + 1) / (1 - self.product * self.mu(t + 1))
        d = rate * (1 - self.mu(t)) / (1 - self.product)
        self.w -= (c * self.a + d * g) / (math.sqrt(self.b / (1 - o["beta2"] ** t)) + o["epsilon"])

    def rule_9(self, g, rate):
        o, p = self.o, -self.o["learning_rate_power"]
        more = self.a + g * g
        self.b += g - (more**p - self.a**p) / rate * self.w
        self.a = more
        l1 = o.get("l1", 0.0)
        clipped = min(max(self.b, -l1), l1)
        self.w = (clipped - self.b) / ((o.get("beta", 0.0) + more**p) / rate + 2 * o.get("l2", 0.0))
