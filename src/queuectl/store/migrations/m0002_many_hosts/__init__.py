"""What queues on several hosts need: counted renewals, output seen from afar, and receipts.

A node that renews its lease counts it, so that others can see whether it did without comparing
clocks. Whoever wants to see the output of a run on another host asks for it in `watches`; its
node answers in `live`. A receipt tells whether a commit came through whose answer was lost.
"""
