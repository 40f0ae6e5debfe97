/** A response of a server, after its cookies were stored. */
export type WebPage = {
  readonly url: string;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Undefined when the response is not JSON. */
  readonly json: any;
};

/** A browser without scripts: it stores cookies by host, follows redirects and submits forms. It ignores SameSite. */
export class WebClient {
  readonly cookies = new Map<string, string>();

  /** One request, without following a redirect. */
  async request(url: string, init: RequestInit = {}): Promise<WebPage> {
    const { hostname } = new URL(url);
    const cookie = [...this.cookies]
      .filter(([key]) => key.startsWith(`${hostname} `))
      .map(([key, value]) => `${key.slice(hostname.length + 1)}=${value}`)
      .join("; ");
    const headers = { accept: "text/html", ...(cookie && { cookie }), ...(init.headers as Record<string, string>) };
    const response = await fetch(url, { ...init, headers, redirect: "manual" });
    for (const set of response.headers.getSetCookie()) this.#store(hostname, set);
    const text = await response.text();
    const isJson = /^[^;]*json/.test(response.headers.get("content-type") ?? "") && text !== "";
    return {
      url,
      status: response.status,
      headers: response.headers,
      text,
      json: isJson ? JSON.parse(text) : undefined,
    };
  }

  /** Follows redirects to the first URL that `stopsAt` matches, which is not requested, or to the last response. */
  async follow(url: string, stopsAt: RegExp | null = null, init: RequestInit = {}): Promise<WebPage> {
    let page = await this.request(url, init);
    for (let n = 0; n < 20 && page.headers.has("location"); n++) {
      const next = new URL(page.headers.get("location")!, page.url).href;
      if (stopsAt?.test(next)) return { ...page, url: next };
      page = await this.request(next);
    }
    return page;
  }

  /** Submits the first form of a page, in which these fields replace those of the page. */
  submit(
    page: WebPage,
    fields: Readonly<Record<string, string>> = {},
    stopsAt: RegExp | null = null,
  ): Promise<WebPage> {
    const [, action] = /<form[^>]*\baction="([^"]*)"/.exec(page.text) ?? [];
    const hidden = [...page.text.matchAll(/<input[^>]*type="hidden"[^>]*>/g)].map(([input]) => [
      decodeHtml(/name="([^"]*)"/.exec(input)![1]!),
      decodeHtml(/value="([^"]*)"/.exec(input)![1]!),
    ]);
    const body = new URLSearchParams({ ...Object.fromEntries(hidden), ...fields });
    return this.follow(new URL(decodeHtml(action ?? ""), page.url).href, stopsAt, { method: "POST", body });
  }

  #store(hostname: string, set: string): void {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(set)!;
    const isDeleted = /max-age=0|expires=Thu, 01 Jan 1970/i.test(set);
    if (isDeleted) this.cookies.delete(`${hostname} ${name}`);
    else this.cookies.set(`${hostname} ${name}`, value!);
  }
}

const decodeHtml = (text: string) =>
  text
    .replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))
    .replaceAll("&quot;", '"')
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&");
