// Asking the server. Whatever is wrong comes out as an `ApiError` with the server's own words.

export class ApiError extends Error {
  constructor(message, status, answer) {
    super(message);
    this.status = status; // 0: the server could not be reached
    this.answer = answer;
  }
}

async function ask(address, options) {
  let reply, answer;
  try {
    reply = await fetch(address, options);
    answer = reply.headers.get("content-type")?.includes("json") ? await reply.json() : { error: await reply.text() };
  } catch {
    throw new ApiError("The server cannot be reached. Is `rolecraft label` still running?", 0, {});
  }
  if (!reply.ok) throw new ApiError(answer.error || `status ${reply.status}`, reply.status, answer);
  return answer;
}

export function get(what, query = {}) {
  return ask(`/api/${what}?${new URLSearchParams(query)}`, {});
}

export function post(what, body, { keepalive = false } = {}) {
  return ask(`/api/${what}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    keepalive,
  });
}
