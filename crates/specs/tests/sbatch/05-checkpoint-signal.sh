#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --nodes=32
#SBATCH --gpus-per-node=8
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-gpu=16
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
#SBATCH --switches=1@10:00
#SBATCH --time=7-00:00:00
#MUSTER --checkpoint-dir /ckpt/pretrain --priority critical
#MUSTER --topology "preferred:leaf"
exec python pretrain.py
