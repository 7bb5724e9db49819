#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --mem=0
#SBATCH --cpus-per-task=8
#SBATCH --time=08:00:00
#SBATCH --nodelist=gpu-17
#SBATCH --signal=USR2@60
jupyter lab --no-browser
