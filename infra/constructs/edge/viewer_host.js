// Tells the functions the address that the viewer used; overwrites whatever the viewer claims.
function handler(event) {
  var request = event.request;
  request.headers['x-evenflow-host'] = { value: request.headers.host.value };
  return request;
}
