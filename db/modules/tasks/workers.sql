-- For workers, which are tasks_owner. No other role may call these functions.

-- Not `begin`: psql would read the name in a plain dump as the start of a body `begin atomic`.
create or replace function tasks.begin_attempt(task uuid, limits json) returns json
language sql volatile set search_path = '' as $$
  update tasks.tasks as t
  set
    status = 'running',
    started_at = clock_timestamp(),
    run = t.run + 1,
    attempts = t.attempts + 1,
    limits = begin_attempt.limits
  where t.id = task
    and t.finished_at is null
  returning json_build_object(
    'id', t.id,
    'kind', t.kind,
    'role', t.role,
    'claims', t.claims,
    'request', t.request,
    'run', t.run,
    'attempts', t.attempts
  )
$$;

comment on function tasks.begin_attempt(uuid, json) is $$
Begins an attempt, after which no earlier attempt can end the task. `limits` are the bytes that it may store, as in
tasks.limits. Returns null if the task has ended.
$$;

create or replace function tasks.fail(task uuid, run integer, error json) returns void
language sql volatile set search_path = '' as $$
  update tasks.tasks as t
  set status = 'failed', finished_at = clock_timestamp(), error = fail.error, request = null
  where t.id = task
    and t.run = fail.run
    and t.status = 'running'
$$;

comment on function tasks.fail(uuid, integer, json) is 'Ends a task with an error.';

create or replace function tasks.put_back(task uuid, run integer, delay interval, is_attempt boolean) returns void
language plpgsql volatile set search_path = '' as $$
begin
  update tasks.tasks as t
  set
    status = 'pending',
    started_at = null,
    attempts = t.attempts - case when is_attempt then 0 else 1 end
  where t.id = task
    and t.run = put_back.run
    and t.status = 'running';
  if found then
    perform graphile_worker.add_job('perform', json_build_object('task', task), run_at => now() + delay);
  end if;
end $$;

comment on function tasks.put_back(uuid, integer, interval, boolean) is
  'Ends an attempt; the next one begins after `delay`. Unless `is_attempt`, the attempt is not counted.';

create or replace function tasks.purge(keep interval, keep_anonymous interval default null) returns integer
language plpgsql volatile set search_path = '' as $$
declare
  client record;
  purged integer := 0;
begin
  -- A loop, because the lock must follow the deletion.
  for client in
    with deleted as (
      delete from tasks.tasks as t
      where t.finished_at < now() - keep
        or t.address is not null and t.finished_at < now() - keep_anonymous
      returning t.owner, t.address, t.bytes
    )
    select d.owner, d.address, sum(d.bytes)::bigint as bytes, count(*)::integer as tasks
    from deleted as d
    group by d.owner, d.address
  loop
    perform tasks.lock();
    perform tasks.count_bytes(client.owner, client.address, -client.bytes);
    purged := purged + client.tasks;
  end loop;
  delete from tasks.storage where bytes = 0;
  return purged;
end $$;

comment on function tasks.purge(interval, interval) is $$
Deletes the tasks that ended longer ago than `keep`, or `keep_anonymous` if their caller was anonymous. Returns how
many.
$$;

create or replace function tasks.lock_of(worker text) returns bigint
language sql immutable set search_path = ''
return hashtextextended('content-service:worker:' || worker, 0);

comment on function tasks.lock_of(text) is 'The key of the advisory lock that a worker holds while it is alive.';

create or replace function tasks.free_jobs() returns text[]
language plpgsql volatile set search_path = '' as $$
declare
  dead text[];
begin
  select array_agg(w.name) into dead
  from (
    select distinct j.locked_by as name
    from graphile_worker.jobs as j
    where j.locked_by is not null
  ) as w
  where pg_try_advisory_xact_lock(tasks.lock_of(w.name));
  if dead is null then return '{}'; end if;
  perform graphile_worker.force_unlock_workers(dead);
  -- graphile-worker sends this notification for new jobs. Without it, workers find them at their next poll.
  perform pg_notify('jobs:insert', json_build_object('r', random(), 'count', cardinality(dead))::text);
  return dead;
end $$;

comment on function tasks.free_jobs() is
  'Unlocks the jobs of dead workers, whose advisory lock is free. Returns the names of these workers.';

create or replace function tasks.restore_jobs() returns integer
language plpgsql volatile set search_path = '' as $$
declare
  restored integer;
begin
  perform graphile_worker.add_job('perform', json_build_object('task', t.id))
  from tasks.tasks as t
  where t.finished_at is null
    and t.has_turn
    and not exists (
      select from graphile_worker._private_jobs as j
      where j.payload ->> 'task' = t.id::text
        and j.attempts < j.max_attempts
        -- A worker begins the task as soon as it has locked the job, unless its connection was lost in between.
        and (t.status = 'running' or coalesce(j.locked_at, 'infinity') >= now() - interval '30 seconds')
    );
  get diagnostics restored = row_count;
  return restored;
end $$;

comment on function tasks.restore_jobs() is $$
Adds a job for each unfinished task that has its turn and no job: an attempt that was overtaken deletes the job that it
shares with the later attempt, and a worker that loses its connection while it locks a job never runs it. Returns how
many it added.
$$;
