#!/bin/sh
#SBATCH --job-name=lr-sweep   # one task for each learning rate
#SBATCH --array=0-30:10,41
#SBATCH --gpus=1
#SBATCH --mem-per-gpu=40G
#SBATCH --time=90
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=someone@example.com

python sweep.py --index "$SLURM_ARRAY_TASK_ID"
