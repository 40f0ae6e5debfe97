-- Tasks have no progress. The functions are created again, with other signatures.
drop function if exists
  tasks.accept(text, json, bigint, integer, text, integer, bigint, bigint),
  tasks.advance(uuid, integer, bigint, bigint),
  tasks.describe(tasks.tasks),
  tasks.estimate(text, bigint);
alter table tasks.tasks
  drop column if exists done,
  drop column if exists total;
