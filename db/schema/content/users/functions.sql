create or replace function public.me() returns public.users
language plpgsql stable set search_path = '' as $$
declare caller public.users;
begin
  select * into caller from public.users where id = auth.uid();
  if found then return caller; end if;
  raise invalid_authorization_specification using message = 'login required';
end $$;

comment on function public.me() is $$
@notNull
The signed-in caller. Raises 28000 when the caller is not signed in.
$$;

create or replace function public.create_user(input public.users) returns public.users
language sql volatile
begin atomic
  insert into public.users (name, email, age)
  values (input.name, input.email, input.age)
  returning *;
end;

comment on function public.create_user(public.users) is $$
@notNull
Creates a user. Raises 23505 when the e-mail is already registered.
$$;

create or replace function public.users_avatar(person public.users, size integer default 80) returns text
language plpgsql immutable set search_path = '' as $$
begin
  size := coalesce(size, 80);
  if size not between 1 and 2048 then
    raise invalid_parameter_value using message = 'size must be from 1 to 2048';
  end if;
  return person.avatar_url
    || case when position('?' in person.avatar_url) > 0 then '&' else '?' end
    || 'size=' || size;
end $$;

comment on function public.users_avatar(public.users, integer) is
  'The URL of the user''s picture, `size` pixels wide; null when the user has none.';

create or replace function internal.user_matches(person public.users, keyword text) returns boolean
language sql immutable parallel safe
-- The first condition uses the trigram index; the others refuse a match that spans two fields.
return internal.user_text(person.name, person.email) ilike internal.substring_pattern(keyword)
  and (
    person.name ilike internal.substring_pattern(keyword)
    or person.email ilike internal.substring_pattern(keyword)
  );
