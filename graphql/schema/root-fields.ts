import type { getBuilder } from "postgraphile/graphile-build";
import type { GraphQLObjectType } from "postgraphile/graphql";
import { endOfSlice, mapYielding } from "../../db/catalog/event-loop.ts";

type FieldWithHooks = (scope: { readonly fieldName: string }, spec: unknown) => object;
/** Returns the field, or throws. */
type Make = () => object;

/** Ends the hooks of a type. */
const enough = new Error("the fields are known");

/**
 * Builds a type with fields for all tables, such as `Query`, in slices. A hook adds the fields of all tables in one turn, so the hooks run
 * twice: first they name the fields, each of which is then built in its slice, and then they add what was built.
 */
export class RootFields {
  /** The type that is built now. */
  #type: GraphQLObjectType | null = null;
  /** Whether the hooks only name the fields. */
  isNaming = false;
  #named: (readonly [name: string, make: Make])[] = [];
  /** What was built for each name, in the order of the calls. */
  #built = new Map<string, Make[]>();
  readonly #fields = new WeakSet<object>();
  readonly #onField: () => void;

  constructor(builder: ReturnType<typeof getBuilder>, onField: () => void) {
    this.#onField = onField;
    const { GraphQLObjectType_fields: hooks } = builder.hooks;
    hooks.unshift((fields, _build, context) => {
      if (context.Self === this.#type)
        Object.assign(context, { fieldWithHooks: this.#adding(context.fieldWithHooks as never) });
      return fields;
    });
    hooks.push((fields, _build, context) => {
      if (context.Self === this.#type && this.isNaming) throw enough;
      return fields;
    });
  }

  async build(type: GraphQLObjectType): Promise<void> {
    this.#type = type;
    [this.#named, this.#built] = [[], new Map()];
    await endOfSlice();
    this.isNaming = true;
    try {
      type.getFields();
    } catch (error) {
      if (error !== enough) this.#named = [];
    }
    this.isNaming = false;
    await mapYielding(this.#named, ([name, make]) => {
      this.#built.set(name, [...(this.#built.get(name) ?? []), this.#made(make)]);
    });
    await endOfSlice();
    type.getFields();
    this.#type = null;
  }

  #adding(build: FieldWithHooks): FieldWithHooks {
    return (scope, spec) => {
      if (this.isNaming) {
        this.#named.push([scope.fieldName, () => build(scope, spec)]);
        return {};
      }
      const built = this.#built.get(scope.fieldName)?.shift();
      if (built) return built();
      // PostGraphile passes all fields again at the end.
      return this.#fields.has(spec as object) ? (spec as object) : build(scope, spec);
    };
  }

  #made(make: Make): Make {
    this.#onField();
    try {
      const field = make();
      this.#fields.add(field);
      return () => field;
    } catch (error) {
      return () => {
        throw error;
      };
    }
  }
}
