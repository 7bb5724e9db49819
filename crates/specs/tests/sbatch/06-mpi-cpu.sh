#!/bin/bash
# An old friend from the CPU days.
#SBATCH --ntasks=96
#SBATCH --ntasks-per-node=48
#SBATCH --mem-per-cpu=2000
#SBATCH --time=30:00
#SBATCH --constraint=icelake
#SBATCH --export=NONE,OMP_NUM_THREADS=1
#SBATCH --comment="weekly run"

./solver input.dat
