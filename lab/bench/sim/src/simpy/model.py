"""Cores in SimPy: model.py MODEL WORKERS JOBS SEED prints a line of JSON.

queue: one queue before all workers, exponential work of 1 us. two-levels: each job to the worker with the fewest unfinished ones,
which serves its jobs in turns of 1 us; work is 0.5 us, or 500 us of one in 200, and a change of jobs costs 40 ns. The load is 0.7.
"""

import json
import random
import resource
import sys
import time
from collections import deque

import simpy

LOAD = 0.7


def queue(env, workers, jobs, done):
    servers = simpy.Resource(env, capacity=workers)

    def job(arrived):
        with servers.request() as request:
            yield request
            yield env.timeout(random.expovariate(1.0))
        done.append(env.now - arrived)

    for _ in range(jobs):
        yield env.timeout(random.expovariate(LOAD * workers))
        env.process(job(env.now))


class Worker:
    def __init__(self, env):
        self.env = env
        self.jobs = deque()
        self.unfinished = 0
        self.idle = None

    def run(self, done):
        env, jobs, last = self.env, self.jobs, None
        while True:
            if not jobs:
                self.idle = env.event()
                yield self.idle
                self.idle = None
            job = jobs.popleft()
            turn = min(job[1], 1.0)
            # Who goes on has no change to pay for.
            yield env.timeout(turn if job is last else turn + 0.04)
            job[1] -= turn
            last = job
            if job[1] > 0.0:
                jobs.append(job)
            else:
                self.unfinished -= 1
                done.append(env.now - job[0])

    def give(self, job):
        self.jobs.append(job)
        self.unfinished += 1
        if self.idle is not None and not self.idle.triggered:
            self.idle.succeed()


def two_levels(env, workers, jobs, done):
    mean = 0.995 * 0.5 + 0.005 * 500.0
    all_workers = [Worker(env) for _ in range(workers)]
    for worker in all_workers:
        env.process(worker.run(done))
    for _ in range(jobs):
        yield env.timeout(random.expovariate(LOAD * workers / mean))
        work = 500.0 if random.random() < 0.005 else 0.5
        min(all_workers, key=lambda worker: worker.unfinished).give([env.now, work])


def main():
    model, workers, jobs, seed = sys.argv[1], *map(int, sys.argv[2:])
    random.seed(seed)
    env = simpy.Environment()
    done = []
    env.process({"queue": queue, "two-levels": two_levels}[model](env, workers, jobs, done))
    begun = time.perf_counter()
    env.run()
    took = time.perf_counter() - begun
    counted = done[jobs // 10 :]
    figures = {
        # What it has numbered until now are the events that it has made.
        "events_per_s": next(env._eid) / took,
        "jobs_per_s": jobs / took,
        "mean_us": sum(counted) / len(counted),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps({"figures": figures}))


main()
