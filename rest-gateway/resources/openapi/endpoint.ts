import type { Catalog } from "../../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../../db/catalog/live.ts";
import { contentTag } from "../../conventions/conditional.ts";
import { answerOf, type Endpoint, type EndpointRequest, type RestAnswer } from "../../conventions/endpoint.ts";
import type { Lifecycle, Version } from "../../conventions/version.ts";
import type { CurrentResources } from "../current.ts";
import { descriptionOff } from "../problem.ts";
import { resourceOpenApi } from "./openapi.ts";
import type { ApiOptions } from "./version.ts";

export type DescriptionOptions = ApiOptions & {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly resources: CurrentResources;
  readonly lifecycle: Lifecycle;
  readonly isOff: boolean;
};

/** `/openapi.json`: the OpenAPI document of the requested version, the same for every caller. */
export class DescriptionEndpoint implements Endpoint {
  readonly #options: DescriptionOptions;
  /** A catalog never changes; its documents are dropped with it. */
  readonly #written = new WeakMap<Catalog, Map<Version, RestAnswer>>();

  constructor(options: DescriptionOptions) {
    this.#options = options;
  }

  methodsAt(segments: readonly string[]): readonly string[] | null {
    return segments.length === 1 ? ["GET", "HEAD", "OPTIONS"] : null;
  }

  async answer({ parameters, version }: EndpointRequest): Promise<RestAnswer> {
    if (this.#options.isOff) throw descriptionOff();
    parameters.allowOnly([]);
    const catalog = this.#options.catalog.current;
    const answers = this.#written.get(catalog) ?? new Map<Version, RestAnswer>();
    this.#written.set(catalog, answers);
    const answer = answers.get(version) ?? this.#write(catalog, version);
    answers.set(version, answer);
    return answer;
  }

  #write(catalog: Catalog, version: Version): RestAnswer {
    const { resources, lifecycle } = this.#options;
    const isDeprecated = lifecycle.isDeprecated(version);
    const api = { ...this.#options, catalog, resources: resources.byName, version, isDeprecated };
    // The final newline keeps the member `deprecation` out of the document.
    const body = Buffer.from(`${JSON.stringify(resourceOpenApi(api))}\n`);
    return { ...answerOf(200, body), etag: contentTag(body) };
  }
}
