"""Planning: decisions that both engines need before they read or write rows.

Files are chosen by `log.plan_scan`, because transactions choose files too.
"""
