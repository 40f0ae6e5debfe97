/** An invalid field. `field` is absent if the message is about the whole form. */
export type Fault = { readonly field?: string; readonly message: string; readonly code?: string };

type Errors = readonly (Fault & { readonly extensions?: { readonly fields?: readonly Fault[] } })[];
type Shapes = {
  readonly graphQLErrors?: Errors;
  readonly errors?: Errors | null;
  readonly error?: { readonly details?: readonly Fault[] };
  readonly fields?: readonly Fault[];
};

/**
 * The invalid fields of a response of GraphQL, a result such as that of createArticle, an error of Apollo, urql or supabase-js, or
 * the body of a REST response. None: show the message of the error.
 */
export function faultsOf(refused: unknown): readonly Fault[] {
  const { graphQLErrors, errors, error, fields }: Shapes = Object(refused);
  if (error) return error.details ?? [];
  if (fields) return fields;
  // An error of GraphQL has extensions. An error of a result has none: it is the fault itself.
  return (graphQLErrors ?? errors ?? []).flatMap((each) => (each.extensions ? (each.extensions.fields ?? []) : [each]));
}
