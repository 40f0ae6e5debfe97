--! Previous: sha1:16ac285d2d0fbc41cea7c5d3cccd9a996fc3ff4c
--! Hash: sha1:f6b0e4b2faa5a0dfe7842534bc15379235257da4
--! Message: graphql filters and orders

-- GraphQL: the connection of users, and titles in filters and orders.
comment on table public.users is $$
@behavior +query:resource:list
A person who writes articles and comments.
$$;
comment on column public.articles.title is E'@behavior +filterBy +orderBy\nAt least 5 characters.';
