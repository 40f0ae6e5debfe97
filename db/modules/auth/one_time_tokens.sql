-- security definer, here and below: the login role of the service may call these functions but not read the tables.
create or replace function auth_private.signs_in_with(user_id auth.user_id, email text) returns boolean
language sql stable set search_path = ''
return coalesce(auth_private.email_of(user_id) = email, false);

comment on function auth_private.signs_in_with(auth.user_id, text) is 'Whether this is the e-mail of an account.';

create or replace function auth_private.may_claim(user_id auth.user_id) returns boolean
language sql stable set search_path = ''
return exists (
  select from auth_private.accounts as a
  where a.user_id = may_claim.user_id
    and (
      a.email_confirmed_at is not null
      or not exists (
        select from auth_private.one_time_tokens as t
        where t.user_id = a.user_id
          and t.kind = 'email-changed'
          and t.expires_at > now())
      and not exists (
        select from auth_private.mails as m
        where m.user_id = a.user_id
          and m.kind = 'email-changed'
          and m.prepared_at is null)));

comment on function auth_private.may_claim(auth.user_id) is $$
Whether the e-mail of an account signs in by itself and resets the password. Not while the previous e-mail can undo the
change to one that was not confirmed: the account may belong to the previous one, which would get all that the new one
has done.
$$;

create or replace function auth_private.account_of_token(token auth_private.one_time_tokens) returns auth.user_id
language sql stable set search_path = ''
return (
  select a.user_id
  from auth_private.accounts as a
  left join auth_private.login_emails as e on e.user_id = a.user_id and e.email = token.email
  where a.user_id = token.user_id
    and a.disabled_at is null
    and (token.kind not in ('reset', 'sign-in') or auth_private.may_claim(a.user_id))
    and case
      when token.data ? 'from' then auth_private.signs_in_with(a.user_id, token.data ->> 'from')
      when e.email is null then token.kind = 'confirm' and a.is_anonymous
      -- Only the previous e-mail of an account undoes a change.
      else (e.released_at is not null) = (token.kind = 'email-changed')
    end);

comment on function auth_private.account_of_token(auth_private.one_time_tokens) is $$
The account of a token; null if it is disabled, or does not sign in any more with the address that has received it. A
change of the e-mail is undone by the address that the account has signed in with before. An anonymous account gets the
address that it confirms.
$$;

create or replace function auth_private.needs_proof(token auth_private.one_time_tokens) returns boolean
language sql stable set search_path = ''
return token.kind = 'confirm'
  and not token.data ? 'byOperator'
  and (
    token.data ? 'from'
    or exists (
      select from auth_private.accounts as a
      where a.user_id = token.user_id
        and a.email_confirmed_at is null));

comment on function auth_private.needs_proof(auth_private.one_time_tokens) is $$
Whether a confirmation gives an account to the owner of a mailbox, as each does but a repeated one. The person who has
registered the account, or has requested the e-mail for it, may be another one. The service key is trusted.
$$;

create or replace function auth_private.only_claims(token auth_private.one_time_tokens) returns boolean
language sql stable set search_path = ''
return not token.data ? 'from' and auth_private.may_claim(token.user_id);

comment on function auth_private.only_claims(auth_private.one_time_tokens) is $$
Whether the mailbox takes the account of a confirmation over without a proof, which ends all from before. Not by a
change of the e-mail: the account belongs to the previous address, which undoes the change if a thief has requested it.
$$;

create or replace function auth_api.read_token(token_hash bytea, now timestamptz) returns json
language sql stable security definer set search_path = '' as $$
  select json_build_object(
    'kind', t.kind,
    'email', t.email,
    'data', t.data,
    'account', auth_api.account_of(t.user_id),
    'factors', auth_private.factor_secrets(t.user_id),
    'needsProof', auth_private.needs_proof(t),
    'claims', auth_private.only_claims(t),
    'keepsFactor', auth_private.keeps_factor(t.user_id))
  from auth_private.one_time_tokens as t
  where t.token_hash = read_token.token_hash
    and t.expires_at > read_token.now
    and (t.user_id is null or auth_private.account_of_token(t) is not null)
$$;

comment on function auth_api.read_token(bytea, timestamptz) is $$
A token that is valid, which stays so: {kind, email, data, account, factors, needsProof, claims, keepsFactor}, where
`factors` are the encrypted secrets of the second factors in hex. Null if there is none.
$$;

create or replace function auth_private.take_token(token_hash bytea, kind text, now timestamptz)
returns auth_private.one_time_tokens
language plpgsql volatile set search_path = '' as $$
declare token auth_private.one_time_tokens;
begin
  -- Accounts are locked before their tokens, as changes of accounts do, so that there are no deadlocks.
  perform from auth_private.accounts as a
  where a.user_id = (
    select t.user_id from auth_private.one_time_tokens as t where t.token_hash = take_token.token_hash)
  for no key update;

  delete from auth_private.one_time_tokens as t
  where t.token_hash = take_token.token_hash
    and t.kind = take_token.kind
    and t.expires_at > take_token.now
    and (t.user_id is null or auth_private.account_of_token(t) is not null)
  returning *
  into token;
  return token;
end $$;

comment on function auth_private.take_token(bytea, text, timestamptz) is
  'Takes a token, which nothing else can take then, and locks its account. Null if it is not valid.';

create or replace function auth_private.claim_account(user_id auth.user_id, address inet, now timestamptz) returns void
language plpgsql volatile set search_path = '' as $$
begin
  if auth_private.is_unconfirmed(claim_account.user_id) then
    perform auth_private.drop_unconfirmed_factors(claim_account.user_id, claim_account.now);
  end if;
  update auth_private.accounts as a
  set email_confirmed_at = claim_account.now,
    epoch = a.epoch + 1
  where a.user_id = claim_account.user_id
    and a.email_confirmed_at is null;
  if not found then return; end if;
  perform auth_api.note_event('email_confirmed', claim_account.user_id, address, null, claim_account.now);

  update auth_private.api_keys as k
  set revoked_at = claim_account.now
  where k.user_id = claim_account.user_id
    and k.revoked_at is null;

  delete from auth_private.identities as i
  where i.user_id = claim_account.user_id;

  -- One of them may be a change to another e-mail, which the previous password does not end if there was none.
  perform auth_private.end_pending_change(claim_account.user_id);
  delete from auth_private.one_time_tokens as t
  where t.user_id = claim_account.user_id;
end $$;

comment on function auth_private.claim_account(auth.user_id, inet, timestamptz) is $$
Confirms the e-mail of an account whose mailbox the user has shown to be theirs, without its password. If it was not
confirmed before, the account may be one that another person has registered for this address: its sign-ins, API keys,
identities, second factors and other links end.
$$;

create or replace function auth_private.confirm_account(user_id auth.user_id, address inet, now timestamptz)
returns void
language plpgsql volatile set search_path = '' as $$
begin
  update auth_private.accounts as a
  set email_confirmed_at = confirm_account.now
  where a.user_id = confirm_account.user_id
    and a.email_confirmed_at is null;
  if not found then return; end if;
  perform auth_api.note_event('email_confirmed', confirm_account.user_id, address, null, confirm_account.now);
end $$;

comment on function auth_private.confirm_account(auth.user_id, inet, timestamptz) is $$
Confirms the e-mail of an account whose user has shown that the mailbox is theirs. It keeps what was made before.
$$;

create or replace function auth_api.reset_password(
  token_hash bytea, password_hash text, sent jsonb, address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  token constant auth_private.one_time_tokens := auth_private.take_token(
    reset_password.token_hash, 'reset', reset_password.now);
  tried json;
begin
  if token.user_id is null then return json_build_object('outcome', 'spent'); end if;
  if sent is null and not auth_private.keeps_factor(token.user_id) then
    tried := json_build_object('outcome', 'accepted');
  else
    tried := auth_private.require_code(token.user_id, sent);
  end if;
  if tried ->> 'outcome' is distinct from 'accepted' then
    -- The link stays valid for another code.
    insert into auth_private.one_time_tokens
    select token.*;
    return tried;
  end if;

  perform set_config('request.address', coalesce(host(reset_password.address), ''), true);
  if sent is not null then
    -- Whoever has the mailbox and a factor has enabled the others too.
    update auth_private.factors as f
    set is_unconfirmed = false
    where f.user_id = token.user_id;
    update auth_private.passkeys as p
    set is_unconfirmed = false
    where p.user_id = token.user_id;
  end if;
  perform auth_api.note_event('password_reset', token.user_id, reset_password.address, null, reset_password.now);
  perform auth_private.claim_account(token.user_id, reset_password.address, reset_password.now);
  update auth_private.accounts as a
  set password_hash = reset_password.password_hash
  where a.user_id = token.user_id;
  return json_build_object('outcome', 'accepted', 'user', token.user_id::text);
end $$;

comment on function auth_api.reset_password(bytea, text, jsonb, inet, timestamptz) is $$
Takes the token of a reset and sets the password, which ends what was issued to the user: {outcome, user}. Second
factors that were enabled before the e-mail was confirmed need no code, and end without one. The outcome is "spent" if
the token is not valid; otherwise as require_code.
$$;

create or replace function auth_private.take_email(token auth_private.one_time_tokens) returns void
language plpgsql volatile set search_path = '' as $$
begin
  if token.kind <> 'confirm' or not (token.data ? 'from' or auth_private.email_of(token.user_id) is null) then
    return;
  end if;
  perform auth_private.act_for(token.user_id);
  perform auth_private.change_email(token.user_id, token.email, 'owner');
end $$;

comment on function auth_private.take_email(auth_private.one_time_tokens) is
  'The account of a confirmation signs in with the address from now on, if the user has requested that.';

create or replace function auth_api.confirm_email(
  token_hash bytea, proved_epoch integer, password_hash text, address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  token auth_private.one_time_tokens := auth_private.take_token(
    confirm_email.token_hash, 'confirm', confirm_email.now);
  is_own boolean;
begin
  if token.user_id is null then return null; end if;
  perform set_config('request.address', coalesce(host(confirm_email.address), ''), true);
  is_own := not auth_private.needs_proof(token) or exists (
    select from auth_private.accounts as a
    where a.user_id = token.user_id
      and a.epoch = confirm_email.proved_epoch);
  if not is_own
    and (
      confirm_email.password_hash is null
      or auth_private.keeps_factor(token.user_id)
      or not auth_private.only_claims(token))
  then
    -- The link stays valid for another attempt.
    insert into auth_private.one_time_tokens
    select token.*;
    return json_build_object('outcome', 'unproved');
  end if;

  if not is_own then
    perform auth_private.claim_account(token.user_id, confirm_email.address, confirm_email.now);
    update auth_private.accounts as a
    set password_hash = confirm_email.password_hash
    where a.user_id = token.user_id;
  end if;
  perform auth_private.take_email(token);
  perform auth_private.confirm_account(token.user_id, confirm_email.address, confirm_email.now);
  if token.data -> 'application' ? 'challenge' then
    -- The link leads to the application again, until that has exchanged a code of it.
    token.kind := 'confirmed';
    token.data := token.data - 'from';
    insert into auth_private.one_time_tokens
    select token.*;
  end if;
  return json_build_object('outcome', 'confirmed', 'user', token.user_id);
exception
  -- Another account has got the address in the meantime, or this one has 20 others that are reserved.
  when unique_violation or program_limit_exceeded then return null;
end $$;

comment on function auth_api.confirm_email(bytea, integer, text, inet, timestamptz) is
$$
Takes the token of a confirmation: the e-mail of the account is confirmed, and replaces the previous one if the user has
asked for that: {outcome, user}. Null if the token is not valid. It needs a proof that the account is that of the owner
of the mailbox: `proved_epoch` is the epoch of the account for which the client has proved it. Otherwise all that was
made before ends, and the new password is set. Without one, for an account with a second factor from a time when its
e-mail was confirmed, for a change of the e-mail, and while one can be undone, the outcome is "unproved", and the token
stays valid. With the challenge of an application it becomes one of the kind "confirmed", which confirms nothing more:
only a code of the application takes it.
$$;

create or replace function auth_api.decline_confirmation(token_hash bytea, address inet, now timestamptz)
returns boolean
language plpgsql volatile security definer set search_path = '' as $$
declare
  token constant auth_private.one_time_tokens := auth_private.take_token(
    decline_confirmation.token_hash, 'confirm', decline_confirmation.now);
begin
  if token.user_id is null then return false; end if;
  -- Also what was sent once more.
  delete from auth_private.mails as m
  where m.user_id = token.user_id
    and m.kind = 'confirm'
    and m.email = token.email;
  delete from auth_private.one_time_tokens as t
  where t.user_id = token.user_id
    and (
      t.kind = 'confirm' and t.email = token.email
      or t.kind = 'change' and t.data ->> 'newEmail' = token.email);
  perform auth_api.note_event(
    'confirmation_declined', token.user_id, decline_confirmation.address,
    jsonb_build_object('email', token.email), decline_confirmation.now);
  return true;
end $$;

comment on function auth_api.decline_confirmation(bytea, inet, timestamptz) is $$
Takes the token of a confirmation whose recipient does not know the account: all links that confirm this address for it
end. False if the token is not valid.
$$;

create or replace function auth_private.user_of_mail(
  token auth_private.one_time_tokens, address inet, now timestamptz)
returns auth.user_id
language plpgsql volatile set search_path = '' as $$
declare
  fields constant jsonb := token.data -> 'newUser';
  id auth.user_id := token.user_id;
begin
  if id is not null or fields is null then return id; end if;
  -- The address may have got an account since the e-mail.
  id := (auth_api.find_account(token.email) ->> 'id')::auth.user_id;
  if id is not null then return case when auth_private.may_claim(id) then id end; end if;
  perform auth_private.require_open_sign_up();
  id := auth_private.sign_up(
    jsonb_build_object('name', fields ->> 'name', 'email', token.email),
    null,
    null,
    fields -> 'metadata');
  update auth_private.accounts as a
  set email_confirmed_at = user_of_mail.now
  where a.user_id = id;
  perform auth_api.note_event('registered', id, user_of_mail.address, '{"by": "e-mail"}', user_of_mail.now);
  return id;
end $$;

comment on function auth_private.user_of_mail(auth_private.one_time_tokens, inet, timestamptz) is
  'The user of a token that was taken, who is created if the e-mail was to sign up. Raises CS403 unless SIGNUP=open.';

create or replace function auth_private.admit_by_mail(token auth_private.one_time_tokens, address inet, now timestamptz)
returns json
language plpgsql volatile set search_path = '' as $$
begin
  token.user_id := auth_private.user_of_mail(token, admit_by_mail.address, admit_by_mail.now);
  if token.user_id is null then return null; end if;
  -- A sign-in ends nothing before the code of the second factor; users who do not know it reset the password.
  if auth_private.keeps_factor(token.user_id)
    or token.kind = 'sign-in' and auth_private.has_factor(token.user_id)
  then return auth_api.account_of(token.user_id); end if;
  -- The password of an account whose e-mail was never confirmed may be that of another person, as its keys may be.
  perform set_config('request.address', coalesce(host(admit_by_mail.address), ''), true);
  update auth_private.accounts as a
  set password_hash = null
  where a.user_id = token.user_id
    and a.email_confirmed_at is null
    and a.password_hash is not null;
  perform auth_private.claim_account(token.user_id, admit_by_mail.address, admit_by_mail.now);
  perform auth_private.take_email(token);
  return auth_api.account_of(token.user_id);
end $$;

comment on function auth_private.admit_by_mail(auth_private.one_time_tokens, inet, timestamptz) is
$$
The account that signs in with a token that was taken. It is claimed, without a password, if it was not confirmed. With
a second factor, a sign-in claims nothing, and a reset or a confirmation only if the factor was not enabled under a
confirmed e-mail.
$$;

create or replace function auth_api.take_mail_token(
  token_hash bytea, kinds text[], proved_epoch integer, signed_in auth.user_id, address inet, now timestamptz)
returns json
language plpgsql volatile security definer set search_path = '' as $$
declare
  found_token auth_private.one_time_tokens;
  taken auth_private.one_time_tokens;
  confirmed json;
  account json;
begin
  select *
  into found_token
  from auth_private.one_time_tokens as t
  where t.token_hash = take_mail_token.token_hash
    and t.kind = any (kinds);
  if found_token.kind = 'confirm' then
    confirmed := auth_api.confirm_email(
      take_mail_token.token_hash,
      take_mail_token.proved_epoch,
      null,
      take_mail_token.address,
      take_mail_token.now);
    delete from auth_private.one_time_tokens as t
    where t.token_hash = take_mail_token.token_hash
      and t.kind = 'confirmed';
    account := auth_api.account_of((confirmed ->> 'user')::auth.user_id);
    if confirmed ->> 'outcome' = 'unproved' and not auth_private.only_claims(found_token) then
      return null;
    end if;
  end if;
  -- A confirmation without a proof is like any other link: it shows whose the mailbox is, and not whose the password.
  if found_token.kind <> 'confirm' or confirmed ->> 'outcome' = 'unproved' then
    taken := auth_private.take_token(take_mail_token.token_hash, found_token.kind, take_mail_token.now);
    if signed_in is null then
      account := auth_private.admit_by_mail(taken, take_mail_token.address, take_mail_token.now);
    elsif taken.user_id = signed_in then
      perform auth_private.confirm_account(signed_in, take_mail_token.address, take_mail_token.now);
      account := auth_api.account_of(signed_in);
    end if;
  end if;
  if account is null then return null; end if;
  return json_build_object('account', account, 'token', to_json(found_token));
end $$;

comment on function auth_api.take_mail_token(bytea, text[], integer, auth.user_id, inet, timestamptz) is $$
Takes a token of one of these kinds, which all show whose the mailbox is: {account, token}, the account that signs in,
as account_of returns it, and what return_mail_token stores again. Null if the token is not valid. The token of a
confirmation leaves the password only with a proof, as for confirm_email. A user who is signed in takes only their own:
the session and the mailbox together prove the account, so the e-mail is confirmed and nothing ends.
$$;

create or replace function auth_api.return_mail_token(token jsonb, user_id auth.user_id, epoch integer) returns void
language sql volatile security definer set search_path = '' as $$
  insert into auth_private.one_time_tokens
  select t.*
  from jsonb_populate_record(null::auth_private.one_time_tokens, token) as t
  where exists (
    select from auth_private.accounts as a
    where a.user_id = return_mail_token.user_id
      and a.epoch = return_mail_token.epoch
      and a.disabled_at is null)
  on conflict do nothing
$$;

comment on function auth_api.return_mail_token(jsonb, auth.user_id, integer) is $$
Makes a token that take_mail_token has taken valid again, because a hook has refused its sign-in; not if the account has
changed since.
$$;

create or replace function auth_private.find_code(email text, now timestamptz)
returns auth_private.one_time_tokens
language sql stable set search_path = '' as $$
  select t.*
  from auth_private.one_time_tokens as t
  where auth_private.email_key(t.email) = auth_private.email_key(find_code.email)
    and t.code_hash is not null
    and t.expires_at > find_code.now
  -- Not by the expiry: an invitation is valid longer than a newer code.
  order by t.created_at desc
  limit 1
$$;

comment on function auth_private.find_code(text, timestamptz) is
  'The token with the newest code that an address has received.';

create or replace function auth_api.find_mail_code(email text, code_hash bytea, attempts integer, now timestamptz)
returns text
language plpgsql volatile security definer set search_path = '' as $$
declare found_token auth_private.one_time_tokens;
begin
  -- Codes that are sent for one account, or for one address, at the same time are counted one by one.
  perform from auth_private.accounts as a
  where a.user_id = (auth_private.find_code(find_mail_code.email, find_mail_code.now)).user_id
  for no key update;
  perform from auth_private.one_time_tokens as t
  where t.token_hash = (auth_private.find_code(find_mail_code.email, find_mail_code.now)).token_hash
  for update;
  found_token := auth_private.find_code(find_mail_code.email, find_mail_code.now);

  if found_token.code_hash = find_mail_code.code_hash then return encode(found_token.token_hash, 'hex'); end if;
  -- The link stays valid: whoever guesses codes cannot end it.
  update auth_private.one_time_tokens as t
  set attempts = t.attempts + 1,
    code_hash = case when t.attempts + 1 < find_mail_code.attempts then t.code_hash end
  where t.token_hash = found_token.token_hash;
  return null;
end $$;

comment on function auth_api.find_mail_code(text, bytea, integer, timestamptz) is $$
The hash of the token, in hex, that came with this code to an address, to take it with. Null for a wrong code; after
this many of them, the code is no longer valid. An unknown address costs the same statements as a known one.
$$;

create or replace function auth_api.invite(email text, data jsonb, address inet, now timestamptz) returns void
language plpgsql volatile security definer set search_path = '' as $$
begin
  perform auth_private.add_mail('invitation', null, invite.email, invite.data, invite.now);
  perform auth_api.note_event(
    'invited', null, invite.address, jsonb_build_object('email', invite.email), invite.now);
end $$;

comment on function auth_api.invite(text, jsonb, inet, timestamptz) is
  'Adds an invitation. If the address has an account, its owner hears of that instead.';

create or replace function auth_api.accept_invitation(
  token_hash bytea, name text, password_hash text, address inet, now timestamptz)
returns auth.user_id
language plpgsql volatile security definer set search_path = '' as $$
declare
  token constant auth_private.one_time_tokens := auth_private.take_token(
    accept_invitation.token_hash, 'invitation', accept_invitation.now);
  new_id auth.user_id;
begin
  if token.token_hash is null then return null; end if;
  new_id := auth_private.sign_up(
    jsonb_build_object('name', accept_invitation.name, 'email', token.email),
    null,
    accept_invitation.password_hash);
  update auth_private.accounts as a
  set email_confirmed_at = accept_invitation.now,
    invited_at = token.created_at
  where a.user_id = new_id;
  perform auth_api.note_event(
    'registered', new_id, accept_invitation.address, '{"by": "invitation"}', accept_invitation.now);
  return new_id;
end $$;

comment on function auth_api.accept_invitation(bytea, text, text, inet, timestamptz) is $$
Takes the token of an invitation and creates a user with an account, whose e-mail is confirmed. Null if the token is not
valid; it stays valid if the database refuses the user.
$$;

-- Links and codes from before are not valid for the account as it is now.
create or replace function auth_private.end_tokens() returns trigger
language plpgsql volatile set search_path = '' as $$
begin
  delete from auth_private.one_time_tokens as t
  where t.user_id = new.user_id
    -- A thief who changes the password too cannot keep the owner from undoing the change of the e-mail.
    and t.kind <> 'email-changed'
    -- An anonymous user may choose the first password together with the e-mail.
    and not (t.kind = 'confirm' and new.is_anonymous);
  return null;
end $$;

comment on function auth_private.end_tokens() is $$
Deletes the links and codes of an account whose password has changed, or that was disabled or enabled, except those
that undo a change of the e-mail.
$$;

create or replace trigger _300_tokens after update on auth_private.accounts
  for each row when (
    auth_private.is_other_password(old.password_hash, new.password_hash)
    or old.disabled_at is distinct from new.disabled_at
  ) execute function auth_private.end_tokens();
