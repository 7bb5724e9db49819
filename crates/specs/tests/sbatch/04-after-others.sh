#!/bin/bash
#SBATCH -J evaluate
#SBATCH -d afterok:101:102,afterany:103
#SBATCH --dependency=afternotok:prepare
#SBATCH -G a100:2
#SBATCH -t 0-02
#SBATCH --chdir=/data/eval
#SBATCH --no-requeue
./evaluate.sh
