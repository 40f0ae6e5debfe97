-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_private.add_mail(
  kind text, user_id auth.user_id, email text, data jsonb, now timestamptz)
returns void
language plpgsql volatile set search_path = '' as $$
declare new_id uuid;
begin
  insert into auth_private.mails (kind, user_id, email, data, created_at)
  values (add_mail.kind, add_mail.user_id, add_mail.email, add_mail.data, add_mail.now)
  returning id into new_id;
  perform tasks.add_mail(new_id);
end $$;

comment on function auth_private.add_mail(text, auth.user_id, text, jsonb, timestamptz) is
  'Adds an e-mail and its task: both are there once the transaction is committed.';

create or replace function auth_private.mail_key(email text) returns text
language sql immutable set search_path = ''
return auth_private.email_key(regexp_replace(email, '[+][^@]*@', '@'));

comment on function auth_private.mail_key(text) is
  'The mailbox of an address, for limits: many mail servers deliver ann+1@ to ann@.';

create or replace function auth_api.request_mail(
  kind text, email text, data jsonb, networks text[], per_recipient integer, per_network integer[], per_hour integer,
  now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  reservation json;
  sent bigint;
begin
  -- Such as "a"@example.com, which is the mailbox of a@example.com and would be counted as another one.
  if not auth.is_email(request_mail.email) then return '"malformed"'; end if;

  -- Of the second half of all e-mails, each network gets a tenth of its limit: few cannot use up those of others.
  select count(*)
  into sent
  from auth_private.attempts as a
  where a.key = auth_private.attempt_key('mail', 'all')
    and a.at > request_mail.now - interval '1 hour';
  if sent * 2 >= per_hour then
    per_network := array(select greatest(1, allowed / 10) from unnest(per_network) as allowed);
  end if;

  -- Decided at once, so that it is never null: requests for one key wait for each other.
  reservation := auth_api.reserve_attempt(
    auth_private.attempt_key('mail to', auth_private.mail_key(request_mail.email))
      || auth_private.attempt_keys('mail from', networks)
      || auth_private.attempt_key('mail', 'all'),
    per_recipient || per_network || per_hour,
    request_mail.now,
    interval '1 hour');
  if reservation ->> 'retryAfter' is not null then return reservation; end if;
  perform auth_api.settle_attempt(array(select json_array_elements_text(reservation -> 'ids')::bigint), true);
  perform auth_private.add_mail(
    request_mail.kind, null, request_mail.email, request_mail.data, request_mail.now);
  return null;
end $$;

comment on function
  auth_api.request_mail(text, text, jsonb, text[], integer, integer[], integer, timestamptz) is $$
Adds an e-mail that a request without a sign-in causes. Returns {retryAfter, place} if a limit is reached, as
reserve_attempt does: that of the recipient, of a network, or of all; "malformed" for an address that no account can
have. It does not look for an account, so that nothing depends on whether there is one: begin_mail does, later.
$$;

create or replace function auth_private.count_mail(variadic parts text[]) returns boolean
language plpgsql volatile set search_path = '' as $$
declare
  reservation constant json := auth_api.reserve_attempt(
    array[auth_private.attempt_key(variadic parts)],
    array[auth_api.setting('mails_per_recipient')::integer],
    now(),
    interval '1 hour');
begin
  if reservation is null or reservation ->> 'retryAfter' is not null then return false; end if;
  perform auth_api.settle_attempt(array(select json_array_elements_text(reservation -> 'ids')::bigint), true);
  return true;
end $$;

comment on function auth_private.count_mail(text[]) is
  'Counts an e-mail for this key; false beyond the e-mails of a mailbox in an hour.';

create or replace function auth_private.add_limited_mail(kind text, user_id auth.user_id, email text, data jsonb)
returns void
language plpgsql volatile set search_path = '' as $$
begin
  if not auth_private.count_mail('mail to', auth_private.mail_key(add_limited_mail.email)) then return; end if;
  perform auth_private.add_mail(
    add_limited_mail.kind, add_limited_mail.user_id, add_limited_mail.email, add_limited_mail.data, now());
end $$;

comment on function auth_private.add_limited_mail(text, auth.user_id, text, jsonb) is
  'Adds an e-mail that a sign-up causes, unless the limit of the recipient is reached.';

create or replace function auth_private.takes_token(kind text) returns boolean
language sql immutable set search_path = ''
return kind in ('reset', 'confirm', 'sign-in', 'email-changed', 'invitation');

comment on function auth_private.takes_token(text) is 'Whether e-mails of this kind have a link with a token.';

create or replace function auth_private.pending_change(mail auth_private.mails, now timestamptz)
returns auth_private.mails
language plpgsql volatile set search_path = '' as $$
declare pending auth_private.one_time_tokens;
begin
  select t.*
  into pending
  from auth_private.one_time_tokens as t
  where t.kind = 'confirm'
    and t.expires_at > pending_change.now
    and (t.data ? 'from' or auth_private.email_of(t.user_id) is null)
    and (
      auth_private.email_key(t.email) = auth_private.email_key(mail.email)
      or t.user_id = (
        select e.user_id
        from auth_private.login_emails as e
        where auth_private.email_key(e.email) = auth_private.email_key(mail.email)
          and e.released_at is null))
    and auth_private.account_of_token(t) is not null
  order by t.created_at desc
  limit 1;
  -- The request has counted for the address that it names, which need not be the recipient.
  if not found
    or auth_private.email_key(pending.email) <> auth_private.email_key(mail.email)
    and not auth_private.count_mail('mail to', auth_private.mail_key(pending.email))
  then return null; end if;

  mail.kind := 'confirm';
  mail.user_id := pending.user_id;
  mail.email := pending.email;
  -- Otherwise a thief who has requested the change could keep it pending for ever.
  mail.data := pending.data || jsonb_strip_nulls(mail.data) || jsonb_build_object('until', pending.expires_at);
  mail.prepared_at := pending_change.now;
  return mail;
end $$;

comment on function auth_private.pending_change(auth_private.mails, timestamptz) is $$
The e-mail that confirms a requested change of the e-mail once more, as long as the first one is valid: `mail` names the
present address or the new one, and the new one receives it. Null if no change is pending.
$$;

create or replace function auth_private.prepared(
  mail auth_private.mails, now timestamptz)
returns auth_private.mails
language plpgsql volatile set search_path = '' as $$
declare account record;
begin
  if mail.kind = 'change' then return auth_private.pending_change(mail, prepared.now); end if;
  perform auth_private.lift_bans(e.user_id, prepared.now)
  from auth_private.login_emails as e
  where auth_private.email_key(e.email) = auth_private.email_key(mail.email)
    and e.released_at is null;

  select a.user_id, a.disabled_at, a.email_confirmed_at, e.email
  into account
  from auth_private.login_emails as e
  join auth_private.accounts as a on a.user_id = e.user_id
  where auth_private.email_key(e.email) = auth_private.email_key(mail.email)
    and e.released_at is null;
  mail.prepared_at := prepared.now;
  -- The stored address, and not a spelling of it that the client has chosen.
  mail.email := coalesce(account.email, mail.email);
  mail.user_id := account.user_id;
  mail.kind := case
    when mail.kind = 'invitation' and account.user_id is null then 'invitation'
    when mail.kind = 'invitation' then 'account-exists'
    -- The code makes the user: the e-mail is the same as for one who exists.
    when account.user_id is null and mail.data ? 'newUser' and auth_api.setting('signup') = 'open' then mail.kind
    when account.user_id is null then 'no-account'
    when account.disabled_at is not null then 'account-disabled'
    when mail.kind = 'confirm' and account.email_confirmed_at is not null then 'already-confirmed'
    when mail.kind in ('reset', 'sign-in') and not auth_private.may_claim(account.user_id) then 'recently-changed'
    else mail.kind
  end;
  return mail;
end $$;

comment on function auth_private.prepared(auth_private.mails, timestamptz) is
$$
A requested e-mail with what is sent in its place: every address gets one e-mail, with or without an account. Null if a
change of the e-mail is to be confirmed once more, and none is pending.
$$;

create or replace function auth_api.begin_mail(
  id uuid, token_hash bytea, code_hash bytea, now timestamptz, validity interval)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  mail auth_private.mails;
  expiry timestamptz;
begin
  select *
  into mail
  from auth_private.mails as m
  where m.id = begin_mail.id
    and m.sent_at is null
  for update;
  if not found then return null; end if;

  if mail.prepared_at is null then
    if mail.user_id is null then mail := auth_private.prepared(mail, begin_mail.now); end if;
    if mail.kind is null then
      delete from auth_private.mails as m where m.id = begin_mail.id;
      return null;
    end if;
    update auth_private.mails as m
    set kind = mail.kind,
      user_id = mail.user_id,
      email = mail.email,
      data = mail.data,
      prepared_at = begin_mail.now
    where m.id = begin_mail.id;

    expiry := least(
      mail.created_at + case mail.kind
        when 'email-changed' then interval '24 hours'
        when 'invitation' then interval '7 days'
        else validity
      end,
      (mail.data ->> 'until')::timestamptz);
    if auth_private.takes_token(mail.kind) and expiry > begin_mail.now then
      insert into auth_private.one_time_tokens (token_hash, kind, user_id, email, data, code_hash, expires_at)
      values (
        begin_mail.token_hash,
        -- The link signs in a user who exists, and otherwise creates one.
        case when mail.kind = 'invitation' and mail.user_id is not null then 'sign-in' else mail.kind end,
        mail.user_id,
        mail.email,
        mail.data,
        case when mail.kind = 'sign-in' then begin_mail.code_hash end,
        expiry);
    end if;
  end if;

  -- A later attempt does not bring back a token that was used, or that has expired.
  if auth_private.takes_token(mail.kind) then
    perform from auth_private.one_time_tokens as t
    where t.token_hash = begin_mail.token_hash
      and t.expires_at > begin_mail.now;
    if not found then
      delete from auth_private.mails as m where m.id = begin_mail.id;
      return json_build_object('outcome', 'too late', 'kind', mail.kind);
    end if;
  end if;
  return json_build_object(
    'outcome', 'due',
    'kind', mail.kind,
    'email', mail.email,
    'data', mail.data,
    'userId', mail.user_id,
    'hasHook', auth_private.hook('send_message') is not null);
end $$;

comment on function auth_api.begin_mail(uuid, bytea, bytea, timestamptz, interval) is $$
What to send for an e-mail that is due: {outcome: "due", kind, email, data, userId, hasHook}; null if it is sent, or
nothing is to be sent.
The first attempt stores the token of its link; the outcome is "too late" if it is no longer valid.
$$;

create or replace function auth_api.hand_over_mail(id uuid, message jsonb) returns boolean
language plpgsql volatile security definer set search_path = '' as $$
begin
  if not auth_private.send_message(message) then return false; end if;
  delete from auth_private.mails as m
  where m.id = hand_over_mail.id;
  return true;
end $$;

comment on function auth_api.hand_over_mail(uuid, jsonb) is $$
Gives an e-mail to the hook send_message. True if the application sends it: it is no longer due, in the transaction of
the hook. False if the service sends it.
$$;

create or replace function auth_api.end_mail(id uuid, keeps boolean, now timestamptz) returns void
language sql volatile security definer set search_path = '' as $$
  update auth_private.mails as m
  set sent_at = end_mail.now
  where m.id = end_mail.id
    and keeps;

  delete from auth_private.mails as m
  where m.id = end_mail.id
    and not keeps;
$$;

comment on function auth_api.end_mail(uuid, boolean, timestamptz) is
  'Marks an e-mail as sent: its row is deleted, or is kept for the console.';

create or replace function auth_api.list_mails(total integer) returns json
language sql stable security definer set search_path = '' as $$
  select coalesce(json_agg(json_build_object(
    'id', m.id, 'kind', m.kind, 'email', m.email, 'data', m.data, 'sentAt', m.sent_at
  ) order by m.created_at desc), '[]')
  from (
    select *
    from auth_private.mails as m
    where m.sent_at is not null
    order by m.created_at desc
    limit total
  ) as m
$$;

comment on function auth_api.list_mails(integer) is 'The newest e-mails that are kept for the console.';

create or replace function auth_api.purge_mails(now timestamptz, retention interval) returns void
language sql volatile security definer set search_path = '' as $$
  delete from auth_private.one_time_tokens as t
  where t.expires_at < purge_mails.now;

  delete from auth_private.mails as m
  where m.created_at < purge_mails.now - retention;
$$;

comment on function auth_api.purge_mails(timestamptz, interval) is
  'Deletes expired tokens, and old e-mails: those that are kept, and those that could not be sent.';
