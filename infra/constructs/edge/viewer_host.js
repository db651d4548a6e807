// Tells the functions the viewer's address, and the one that it called; overwrites whatever the
// viewer claims.
function handler(event) {
  var request = event.request;
  request.headers['x-evenflow-host'] = { value: request.headers.host.value };
  request.headers['x-evenflow-address'] = { value: event.viewer.ip };
  return request;
}
