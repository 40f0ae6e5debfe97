-- Limits of tasks that concern several of them: how many of an owner run, and how many bytes are stored.
--
-- A *client* is a user, another role, or an anonymous IP address. All anonymous clients are one *owner* and share its
-- turns, and may use half of the storage.
--
-- The functions that give turns and count bytes need `tasks.lock()`. To avoid deadlocks, a transaction locks the task
-- that it changes first. The transaction that does the work never takes the lock. So results that are stored at the
-- same time may exceed a limit together: by one result of the largest size for each task that runs.

create or replace function tasks.lock() returns void
language sql volatile set search_path = '' as $$
  select pg_advisory_xact_lock(hashtextextended('content-service:tasks', 0))
$$;

comment on function tasks.lock() is 'Locks the turns of all owners and the counted bytes, until the transaction ends.';

create or replace function tasks.current_round(owner text) returns integer
language sql stable set search_path = ''
return (
  select coalesce(max(t.round), 0)
  from tasks.tasks as t
  where t.owner = current_round.owner
    and t.has_turn
);

comment on function tasks.current_round(text) is 'The round of the owner''s latest turn; 0 if no task has a turn.';

create or replace function tasks.give_turns(owner text, max_running integer) returns integer
language plpgsql volatile set search_path = '' as $$
declare
  given_turns integer;
  held constant bigint := (select count(*) from tasks.tasks as t where t.owner = give_turns.owner and t.has_turn);
begin
  with next as (
    select t.id
    from tasks.tasks as t
    where t.owner = give_turns.owner
      and t.finished_at is null
      and not t.has_turn
    order by t.round, t.created_at
    limit greatest(max_running - held, 0)
    for no key update skip locked
  ), given as (
    update tasks.tasks as t
    set has_turn = true
    from next as n
    where t.id = n.id
    returning t.id
  )
  select count(graphile_worker.add_job('perform', json_build_object('task', g.id))) into given_turns
  from given as g;
  return given_turns;
end $$;

comment on function tasks.give_turns(text, integer) is $$
Gives the next tasks of an owner a job, as long as less than `max_running` have one. So an owner with many tasks has few
jobs in the queue, and those of other owners come next. Returns how many. Needs the lock.
$$;

create or replace function tasks.settle(task uuid, max_running integer default 0) returns void
language plpgsql volatile set search_path = '' as $$
declare
  ended tasks.tasks;
  stored bigint;
begin
  select * into ended
  from tasks.tasks as t
  where t.id = settle.task
    and t.finished_at is not null
  for no key update;
  if not found then return; end if;
  perform tasks.lock();
  stored := tasks.size_of(ended);
  perform tasks.count_bytes(ended.owner, ended.address, stored - ended.bytes);
  update tasks.tasks as t
  set bytes = stored, has_turn = false
  where t.id = settle.task;
  perform tasks.give_turns(ended.owner, max_running);
end $$;

comment on function tasks.settle(uuid, integer) is
  'Counts the bytes of a task that has ended, and gives its turn to the next task of the owner.';

create or replace function tasks.settle_lost(max_running integer) returns void
language plpgsql volatile set search_path = '' as $$
begin
  perform tasks.settle(t.id, max_running)
  from (
    select t.id
    from tasks.tasks as t
    where t.has_turn
      and t.finished_at is not null
      and not exists (select from graphile_worker._private_jobs as j where j.payload ->> 'task' = t.id::text)
    for no key update skip locked
  ) as t;
  perform tasks.lock(), tasks.give_turns(o.owner, max_running)
  from (
    select distinct t.owner
    from tasks.tasks as t
    where t.finished_at is null
      and not t.has_turn
  ) as o;
end $$;

comment on function tasks.settle_lost(integer) is
  'Settles the tasks whose worker died before it could, and gives the turns that are free.';

create or replace function tasks.size_of(task tasks.tasks) returns bigint
language sql stable set search_path = ''
-- 4 KiB are for the row, its index entries, its job and an ordinary error.
return 4096
  + octet_length(task.claims::text)
  + coalesce(octet_length(task.request::text), 0)
  + greatest(octet_length(task.error::text) - 1024, 0)
  + (select coalesce(sum(r.bytes), 0)::bigint from tasks.results as r where r.task_id = task.id);

comment on function tasks.size_of(tasks.tasks) is 'The bytes that the task takes up.';

create or replace function tasks.count_bytes(owner text, address text, difference bigint) returns void
language sql volatile set search_path = '' as $$
  insert into tasks.storage as s (client, bytes)
  select c.client, difference
  from (values
    ('(all)', true),
    ('(anonymous)', address is not null),
    (coalesce(address, owner), true)
  ) as c (client, is_counted)
  where c.is_counted
  on conflict (client) do update set bytes = s.bytes + excluded.bytes
$$;

comment on function tasks.count_bytes(text, text, bigint) is
  'Adds a difference to the stored bytes of a client and of those with whom it shares. Needs the lock.';

create or replace function tasks.space_for(
  owner text,
  address text,
  max_stored_per_client bigint,
  max_stored bigint,
  out own bigint,
  out shared bigint
)
language sql stable set search_path = ''
begin atomic
  select
    max_stored_per_client - coalesce(max(s.bytes) filter (where s.client = coalesce(address, owner)), 0),
    least(
      max_stored - coalesce(max(s.bytes) filter (where s.client = '(all)'), 0),
      case when address is not null then
        max_stored / 2 - coalesce(max(s.bytes) filter (where s.client = '(anonymous)'), 0)
      end
    )
  from tasks.storage as s
  where s.client in ('(all)', '(anonymous)', coalesce(address, owner));
end;

comment on function tasks.space_for(text, text, bigint, bigint) is
  'The bytes that a client may still store: `own` of its own limit, `shared` of the limit that it shares with others.';

create or replace function tasks.space_for(task tasks.tasks) returns bigint
language sql stable set search_path = ''
begin atomic
  select greatest(least(s.own, s.shared), 0)
  from tasks.space_for(
    task.owner,
    task.address,
    (task.limits ->> 'client')::bigint,
    (task.limits ->> 'all')::bigint
  ) as s;
end;

comment on function tasks.space_for(tasks.tasks) is
  'The bytes that the latest attempt at a task may store, by the limits with which it began.';
