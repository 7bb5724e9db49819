#!/usr/bin/env bash
#SBATCH -N2 -n16 -Jbench
#SBATCH --gpus-per-task=1
#SBATCH -t UNLIMITED
#SBATCH -p debug -q interactive
#SBATCH --export=ALL,NCCL_DEBUG=INFO
#SBATCH -o bench.log -e bench.err
all_reduce_perf -b 8 -e 8G -f 2 -g 1
