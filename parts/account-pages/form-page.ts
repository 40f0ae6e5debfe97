import { type FormState, NEW_FORM, stateAfter } from "../../rest-gateway/auth/pages/form.ts";
import type { Route } from "../../rest-gateway/auth/route.ts";

/** Shows a page, or does what its form says. */
type Show<V> = (visit: V) => Promise<void>;
type Submit<V> = (visit: V, form: URLSearchParams) => Promise<void>;

export type Page<V> = { readonly show?: Show<V>; readonly submit?: Submit<V> } & Pick<Route, "verifiesPassword">;

/** A page with one form. After a mistake it is sent again, with what is wrong. */
export const formPage = <V>(send: (visit: V, state: FormState) => void | Promise<void>, submit: Submit<V>) => ({
  show: async (visit: V): Promise<void> => send(visit, NEW_FORM),
  async submit(visit: V, form: URLSearchParams): Promise<void> {
    try {
      await submit(visit, form);
    } catch (error) {
      await send(visit, stateAfter(error, form));
    }
  },
});
