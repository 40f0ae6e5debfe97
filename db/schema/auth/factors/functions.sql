-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_api.factor_of(user_id bigint, now timestamptz) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'secret', encode(f.secret, 'hex'),
    'pending', case when f.pending_until > factor_of.now then encode(f.pending, 'hex') end,
    'lastStep', f.last_step)
  from auth_private.factors as f
  where f.user_id = factor_of.user_id
$$;

comment on function auth_api.factor_of(bigint, timestamptz) is
  'The second factor of a user: {secret, pending, lastStep}, secrets encrypted, in hex; null if there is none.';

create or replace function auth_api.begin_factor(user_id bigint, pending bytea, until timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with begun as (
    insert into auth_private.factors as f (user_id, pending, pending_until)
    values (begin_factor.user_id, begin_factor.pending, begin_factor.until)
    on conflict (user_id) do update
    set pending = excluded.pending,
      pending_until = excluded.pending_until
    where f.enabled_at is null
    returning f.user_id
  ), forgotten as (
    -- Earlier attempts were at codes of another secret.
    delete from auth_private.attempts as a
    using begun
    where a.key = auth_private.attempt_key('factor', begun.user_id::text)
  )
  select exists (select from begun)
$$;

comment on function auth_api.begin_factor(bigint, bytea, timestamptz) is
  'Begins an enrolment in place of a pending one, and forgets attempts at codes; false if a factor is enabled.';

create or replace function auth_api.enable_factor(
  user_id bigint, pending bytea, step bigint, code_hashes bytea[], now timestamptz)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  -- The second of two parallel calls no longer finds a pending secret.
  update auth_private.factors as f
  set secret = f.pending,
    pending = null,
    pending_until = null,
    enabled_at = enable_factor.now,
    last_step = enable_factor.step
  where f.user_id = enable_factor.user_id
    and f.pending = enable_factor.pending
    and f.pending_until > enable_factor.now;
  return found and auth_api.replace_backup_codes(enable_factor.user_id, code_hashes);
end $$;

comment on function auth_api.enable_factor(bigint, bytea, bigint, bytea[], timestamptz) is
  'Enables a pending factor whose first code, of this step, was right; false if it is not pending.';

-- A password alone no longer signs the user in.
create or replace trigger _500_announce after update on auth_private.factors
  for each row when (old.enabled_at is distinct from new.enabled_at)
  execute function auth_private.announce_account();

create or replace function auth_api.accept_step(user_id bigint, step bigint) returns boolean
language sql volatile security definer set search_path = '' as $$
  with accepted as (
    update auth_private.factors as f
    set last_step = accept_step.step
    where f.user_id = accept_step.user_id
      and f.enabled_at is not null
      and f.last_step < accept_step.step
    returning f.user_id
  )
  select exists (select from accepted)
$$;

comment on function auth_api.accept_step(bigint, bigint) is
  'Spends the code of a step; false if it, or a later one, was spent before.';

create or replace function auth_api.use_backup_code(user_id bigint, code_hash bytea, now timestamptz) returns boolean
language sql volatile security definer set search_path = '' as $$
  with used as (
    update auth_private.backup_codes as c
    set used_at = use_backup_code.now
    where c.user_id = use_backup_code.user_id
      and c.code_hash = use_backup_code.code_hash
      and c.used_at is null
    returning c.user_id
  )
  select exists (select from used)
$$;

comment on function auth_api.use_backup_code(bigint, bytea, timestamptz) is
  'Spends a backup code; false if it does not exist, or was spent before.';

create or replace function auth_api.replace_backup_codes(user_id bigint, code_hashes bytea[]) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform from auth_private.factors as f
  where f.user_id = replace_backup_codes.user_id
    and f.enabled_at is not null
  for update;
  if not found then return false; end if;

  delete from auth_private.backup_codes as c
  where c.user_id = replace_backup_codes.user_id;
  insert into auth_private.backup_codes (user_id, code_hash)
  select replace_backup_codes.user_id, hash
  from unnest(code_hashes) as hash;
  return true;
end $$;

comment on function auth_api.replace_backup_codes(bigint, bytea[]) is
  'Replaces the backup codes of a user; false if no factor is enabled.';

create or replace function auth_api.remove_factor(user_id bigint) returns boolean
language sql volatile security definer set search_path = '' as $$
  with removed as (
    delete from auth_private.factors as f
    where f.user_id = remove_factor.user_id
    returning f.enabled_at
  )
  select exists (select from removed where enabled_at is not null)
$$;

comment on function auth_api.remove_factor(bigint) is
  'Removes a second factor and its codes; false if none was enabled.';
