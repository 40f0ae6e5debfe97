-- Stored bytes are summed, not reserved. The functions are created again, with other signatures.
drop function if exists
  tasks.begin_attempt(uuid, bigint, bigint, bigint),
  tasks.reserve(tasks.tasks, bigint, bigint, bigint),
  tasks.space_for(text, text, bigint, bigint),
  tasks.count_bytes(text, text, bigint),
  tasks.purge(interval, interval);
alter table tasks.tasks
  drop column if exists result_limit,
  drop column if exists lacks_space,
  add column if not exists limits json;
drop table if exists tasks.storage;
update tasks.tasks as t set bytes = tasks.size_of(t);
create index if not exists tasks_owner_address_idx on tasks.tasks (owner, address) include (bytes);
