#!/bin/bash
#SBATCH --job-name=ray
##SBATCH --nodes=64
# SBATCH --gpus=512
#SBATCH --nodes=2-4
#SBATCH --gres=gpu:4,lustre:1
#SBATCH --parsable --hold

echo start
#SBATCH --time=1:00
ray start --head
