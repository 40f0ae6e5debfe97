-- Changes are read from the write-ahead log only. With the function go the triggers that recorded them.
drop function if exists changes.record_change() cascade;
drop function if exists changes.use_outbox(boolean);
drop table if exists changes.outbox, changes.outbox_horizon;
