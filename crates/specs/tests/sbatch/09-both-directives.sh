#!/bin/bash
#SBATCH --job-name=both
#SBATCH --nodes=1
#SBATCH --gpus-per-node=1
#SBATCH --time=10
#MUSTER --nodes 2 --gpus 8 --ranks-per-node 8 --sku h100-sxm
#MUSTER --volume /data/corpus:/data:ro --secret wandb-key --env 'GREETING=hello world'
#MUSTER --retries=2 --tier spot
python train.py
