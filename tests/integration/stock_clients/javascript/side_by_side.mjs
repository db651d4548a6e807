// Runs a client's scenarios at two addresses, and prints what it saw at each as one line of JSON.

const SECONDS = 40;

export async function run(found) {
  const { client, servers, scenarios } = JSON.parse(process.argv[2]);
  const sides = Object.entries(servers).map(async ([side, { url, model, key }]) => {
    const saw = {};
    for (const name of scenarios) {
      const question = (script) => `${script} for ${client}.${name}`;
      saw[name] = await seen(found[name], { url, model, key, question });
    }
    return [side, saw];
  });
  console.log(JSON.stringify(Object.fromEntries(await Promise.all(sides))));
  process.exit(0);
}

async function seen(scenario, server) {
  let timer;
  const tooLate = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing after ${SECONDS} s`)), SECONDS * 1000);
  });
  try {
    return (await Promise.race([scenario(server), tooLate])) ?? null;
  } catch (error) {
    return raised(error.lastError ?? error);
  } finally {
    clearTimeout(timer);
  }
}

function raised(error) {
  return {
    raised: error.constructor.name,
    status: error.status ?? error.statusCode ?? null,
    code: error.code ?? error.data?.error?.code ?? null,
    retry_after: error.headers?.get?.("retry-after") ?? error.responseHeaders?.["retry-after"] ?? null,
    message: String(error.message).slice(0, 300),
  };
}
