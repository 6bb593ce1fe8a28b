#!/usr/bin/env node
// A handler of data jobs, kept warm: queuectl worker start --serve ./handler.js

const readline = require("node:readline");

async function handle(job) {
  console.error("counting the letters of", job.id); // The job's output.
  return { letters: (job.data ?? "").length };
}

const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const message = JSON.parse(line);
  if ("hello" in message) {
    say({ ready: 1 });
  } else if ("job" in message) {
    try {
      say({ done: message.job, result: await handle(message) });
    } catch (error) {
      say({ failed: message.job, error: String(error) });
    }
  }
});
