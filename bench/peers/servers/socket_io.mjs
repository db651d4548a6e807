// socket.io with connection state recovery, as its documentation sets it up.
import { createServer } from "node:http";
import { Server } from "socket.io";
import { ask, events } from "./model.mjs";

const server = createServer();
const io = new Server(server, { connectionStateRecovery: {} });

io.on("connection", (socket) => {
  // To the room and not to the socket: the room is what a client comes back to.
  socket.on("ask", async (request) => {
    for await (const event of events(await ask(request))) io.to(socket.id).emit("token", event);
  });
});

server.listen(process.env.PORT, "127.0.0.1");
