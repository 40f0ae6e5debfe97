-- Identities at other providers that accounts sign in with. An identity is an issuer and a subject; an e-mail is not.
create table auth_private.identities (
  id        uuid primary key default gen_random_uuid(),
  user_id   bigint not null references auth_private.accounts on delete cascade,
  provider  text not null, -- its name when the identity was last used, for people
  issuer    text not null,
  subject   text not null,
  email     text, -- as the provider gave it last, for people; it identifies nothing
  linked_at timestamptz not null,
  used_at   timestamptz, -- the last sign-in
  sign_in   bytea, -- what the provider needs to end the last sign-in, encrypted; null if there is nothing

  constraint identities_issuer_length check (char_length(issuer) between 1 and 500),
  constraint identities_subject_length check (char_length(subject) between 1 and 500)
);
-- The account that an identity signs in to.
create unique index identities_issuer_subject_key on auth_private.identities (issuer, subject);
-- The identities of an account.
create index identities_user_id_idx on auth_private.identities (user_id);

comment on table auth_private.identities is
  'Identities at other providers that accounts sign in with, by issuer and subject.';
comment on index auth_private.identities_issuer_subject_key is 'this identity already belongs to an account';

alter table auth_private.identities owner to auth_owner;
alter table auth_private.identities enable row level security;
