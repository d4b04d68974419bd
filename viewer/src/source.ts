// The source of answers: the program that serves the page, or the page's own file.
//
// Views do not depend on which. A Source answers a request by name; the answer is
// JSON, binary, or a stream of events that ends with "done".

import { Answer, decode } from "./decode";
import { Hello, Progress, Request, Step } from "./protocol";
import { StillSource } from "./still_source";

interface Listener {
  progress?: (p: Progress) => void;
  token?: (step: Step) => void;
}

export interface Source {
  readonly live: boolean;
  // Continuations are available, at least a recorded one.
  readonly writes: boolean;
  hello(): Promise<Hello>;
  json<T>(name: string, request: Request, signal?: AbortSignal): Promise<T>;
  binary(name: string, request: Request, signal?: AbortSignal): Promise<Answer>;
  stream<T>(
    name: string,
    request: Request,
    listener: Listener,
    signal?: AbortSignal,
  ): Promise<T>;
  picture(request: Request): Promise<Blob>;
}

// The run was evicted: the caller may run it again.
export class GoneError extends Error {}

async function refuse(response: Response): Promise<never> {
  let sentence = `The program answered with status ${response.status}.`;
  let gone = false;
  try {
    const body = await response.json();
    if (typeof body.error === "string") sentence = body.error;
    gone = body.gone === true;
  } catch {
    // Not JSON: keep the message above.
  }
  throw gone ? new GoneError(sentence) : new Error(sentence);
}

class LiveSource implements Source {
  readonly live = true;
  readonly writes = true;
  // The token of the printed address, sent with every request.
  private readonly token = new URLSearchParams(location.search).get("token");

  private async ask(
    name: string,
    request: Request,
    signal?: AbortSignal,
  ): Promise<Response> {
    let response: Response;
    try {
      response = await fetch("api/" + name, {
        method: "POST",
        headers: {
          "Content-Type": "application/json",
          ...(this.token && { Authorization: "Bearer " + this.token }),
        },
        body: JSON.stringify(request),
        signal,
      });
    } catch (e) {
      if (signal?.aborted) throw e;
      throw new Error(
        "The program does not answer: is attend view still running?",
      );
    }
    return response.ok ? response : refuse(response);
  }

  hello(): Promise<Hello> {
    return this.json<Hello>("hello", {});
  }

  async json<T>(
    name: string,
    request: Request,
    signal?: AbortSignal,
  ): Promise<T> {
    return (await this.ask(name, request, signal)).json();
  }

  async binary(
    name: string,
    request: Request,
    signal?: AbortSignal,
  ): Promise<Answer> {
    return decode(await (await this.ask(name, request, signal)).arrayBuffer());
  }

  async picture(request: Request): Promise<Blob> {
    return (await this.ask("picture", request)).blob();
  }

  async stream<T>(
    name: string,
    request: Request,
    listener: Listener,
    signal?: AbortSignal,
  ): Promise<T> {
    const response = await this.ask(name, request, signal);
    for await (const { event, data } of events(response)) {
      if (event === "progress") listener.progress?.(data as Progress);
      else if (event === "token") listener.token?.(data as Step);
      else if (event === "error") {
        const { error, gone } = data as { error: string; gone?: boolean };
        throw gone ? new GoneError(error) : new Error(error);
      }
      else if (event === "done") return data as T;
    }
    throw new Error("The program stopped before it was done.");
  }
}

// Server-sent events over fetch: EventSource cannot POST, and does not report why a
// request was refused.
async function* events(
  response: Response,
): AsyncGenerator<{ event: string; data: unknown }> {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += done
      ? decoder.decode() + "\n\n"
      : decoder.decode(value, { stream: true });
    rest = rest.replace(/\r\n/g, "\n");
    for (
      let end;
      (end = rest.indexOf("\n\n")) >= 0;
      rest = rest.slice(end + 2)
    ) {
      let event = "message";
      let data = "";
      for (const line of rest.slice(0, end).split("\n")) {
        if (line.startsWith("event:")) event = line.slice(6).trim();
        else if (line.startsWith("data:")) data += line.slice(5).trim();
      }
      if (data) yield { event, data: JSON.parse(data) };
    }
    if (done) return;
  }
}

export function open_source(): Source {
  const still = document.getElementById("still");
  const text = still?.textContent?.trim();
  return text ? new StillSource(JSON.parse(text)) : new LiveSource();
}
