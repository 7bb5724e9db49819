#!/bin/bash -l
#SBATCH -J ddp
#SBATCH -N 4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH -c 12
#SBATCH -t 24:00:00
#SBATCH -A research
#SBATCH --qos=high
#SBATCH --exclusive
python -u train.py --backend nccl
