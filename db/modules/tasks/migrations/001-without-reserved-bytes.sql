-- Bytes are counted and not reserved. The functions are created again, with other signatures.
drop function if exists
  tasks.begin_attempt(uuid, bigint, bigint, bigint),
  tasks.reserve(tasks.tasks, bigint, bigint, bigint);
alter table tasks.tasks
  drop column if exists result_limit,
  drop column if exists lacks_space,
  add column if not exists limits json;
update tasks.tasks as t set bytes = tasks.size_of(t);
delete from tasks.storage;
insert into tasks.storage (client, bytes)
select c.client, sum(t.bytes)
from tasks.tasks as t,
  unnest(array[
    '(all)',
    case when t.address is not null then '(anonymous)' end,
    coalesce(t.address, t.owner)
  ]) as c (client)
where c.client is not null
group by c.client;
