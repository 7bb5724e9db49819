#!/bin/bash
#SBATCH --job-name=slurm-script
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=1
#SBATCH --time=00:10:00
# The same file runs under Slurm and under Muster: muster submit examples/slurm-script.sh
echo "job $SLURM_JOB_ID, node $SLURM_NODEID of $SLURM_NNODES ($SLURM_JOB_NODELIST)"
echo "task $SLURM_PROCID of $SLURM_NTASKS sees GPUs ${CUDA_VISIBLE_DEVICES:-none}"
