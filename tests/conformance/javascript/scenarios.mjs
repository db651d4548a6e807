// Runs a client's scenarios, and prints what it saw as one line of JSON.
const SECONDS = 40;

/** Run the scenarios that the command line names; `found` has them by their names. */
export async function run(found) {
  const { client, url, model, scenarios } = JSON.parse(process.argv[2]);
  const saw = scenarios.map(async (name) => [name, await seen(found[name], { url, model, asking: `${client}.${name}` })]);
  console.log(JSON.stringify(Object.fromEntries(await Promise.all(saw))));
  process.exit(0);
}

/** What makes the scripted model answer so. */
export const question = (server, script) => `${script} for ${server.asking}`;

async function seen(scenario, server) {
  try {
    return await Promise.race([scenario(server), late()]);
  } catch (error) {
    return { raised: error.constructor.name, status: error.status ?? error.statusCode ?? null, code: error.code ?? error.data?.error?.code ?? null, message: String(error.message).slice(0, 500) };
  }
}

function late() {
  return new Promise((_, reject) => setTimeout(() => reject(new Error("too late")), SECONDS * 1000).unref());
}
