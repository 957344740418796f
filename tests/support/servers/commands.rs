//! Servers from the distribution as commands: none of them is installed as a service.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of the PATH.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).chain(["/usr/sbin".into()]).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Debian's redis-server is a link to redis-check-rdb, which looks at the name that it is called by, and whose package starts no
/// service.
pub fn redis_program() -> Option<PathBuf> {
    program("redis-server").or_else(|| program("redis-check-rdb"))
}

/// Redis on this port of loopback, and on the socket `redis.sock` of its folder.
pub fn redis(folder: &Path, port: u16) -> Command {
    let named = folder.join("redis-server");
    symlink(redis_program().expect("redis is here"), &named).expect("a link");
    let mut command = Command::new(named);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"]);
    // By default it takes connections from 127.0.0.1 alone, and `tcp-crr` comes from other addresses of loopback too.
    command.args(["--protected-mode", "no", "--unixsocket"]);
    command.arg(folder.join("redis.sock"));
    command
}

/// nginx with one worker on this port of loopback: `/` is five bytes, `/missing` is not there. `how`: what its configuration says
/// of the port beyond the number, such as ` ssl; ssl_certificate …`.
pub fn nginx(folder: &Path, port: u16, how: &str) -> Command {
    let place = folder.display();
    let temporary: String =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|what| format!("{what}_temp_path {place}/{what};")).concat();
    let page = format!(
        "server {{ listen 127.0.0.1:{port}{how}; location / {{ return 200 \"pong\\n\"; }} location /missing {{ return 404 \"no\\n\"; }} }}"
    );
    let text = format!(
        "daemon off; worker_processes 1; error_log stderr; pid {place}/pid; events {{ worker_connections 64; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; {temporary} {page} }}\n"
    );
    let configuration = folder.join("nginx.conf");
    fs::write(&configuration, text).expect("its configuration");
    let mut command = Command::new(program("nginx").expect("nginx is here"));
    command.arg("-p").arg(folder).args(["-e", "stderr", "-c"]).arg(configuration);
    command
}
