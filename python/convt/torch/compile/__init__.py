# SPDX-License-Identifier: Apache-2.0
"""The pass that fuses transposed convolutions in captured graphs, and its doors into torch.compile."""
